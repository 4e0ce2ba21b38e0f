"""Multilayer perceptrons."""

import flax.linen as nn

from fedjax_mos.components import cite
from fedjax_mos.models.layers import Dense, flatten
from fedjax_mos.models.staged import Layer, Staged, staged


@cite("mcmahan2017fedavg")
def mlp(
    classes: int = 10, *, hidden: tuple[int, ...] = (200,), dropout: float = 0.0
) -> Staged:
    """Fully connected ReLU network on the flattened input; one stage per layer.

    On 28x28x1 `mlp()` has d = 159,010; `mlp(hidden=(200, 200))`, d = 199,210, is the
    "2NN" of FedAvg; `mlp(hidden=(64,), dropout=0.5)`, d = 50,890, is the MLP of FedCAMS
    (Wang et al., ICML 2022 [wang2022fedams]), with dropout before the ReLU. The two
    commute, so it is dropout after the ReLU as well.
    """
    if not hidden or min(hidden) < 1:
        raise ValueError(f"hidden must be one or more positive widths: got {hidden}")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must lie in [0, 1): got {dropout}")

    def layer(width: int) -> list[Layer]:
        return [Dense(width), nn.Dropout(dropout), nn.relu]

    first, *others = map(layer, hidden)
    return staged([flatten, *first], *others, [Dense(classes)])
