"""Models as sequences of stages, and the plain functions that use them.

`forward` returns the output of every stage: [-1] logits, [-2] the feature vector. It
can start anywhere, so "local trunk up to level l, global head after it" (FedMLB) is
`forward(model, anchor, hidden[l], start=l + 1)[-1]` and needs no hooks.
"""

from collections.abc import Callable, Sequence
from typing import Any

import flax.linen as nn
import jax

from fedjax_mos.types import Key, Params

Layer = Callable[[jax.Array], jax.Array]  # a module or a function


class Stage(nn.Module):
    """Layers one after another; only dropout depends on `train`."""

    layers: Sequence[Layer]

    def __call__(self, h: jax.Array, train: bool = False) -> jax.Array:
        for layer in self.layers:
            if isinstance(layer, nn.Dropout):
                h = layer(h, deterministic=not train)
            else:
                h = layer(h)
        return h


class Staged(nn.Module):
    """A network cut into stages, each called as `stage(h, train)`.

    The last stage is the classifier; the one before it outputs the feature vector.
    """

    stages: Sequence[nn.Module]

    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        return self.hidden(x, train=train)[-1]

    def hidden(
        self, h: jax.Array, start: int = 0, train: bool = False
    ) -> tuple[jax.Array, ...]:
        """Outputs of the stages from `start` on, given the input of that stage."""
        if not 0 <= start < len(self.stages):
            raise ValueError(f"start={start}, but there are {len(self.stages)} stages")
        outputs = []
        for stage in self.stages[start:]:
            h = stage(h, train)
            outputs.append(h)
        return tuple(outputs)


def staged(*stages: Sequence[Layer] | nn.Module) -> Staged:
    """A `Staged` model; a stage is a module or a sequence of layers.

    >>> from fedjax_mos.models.layers import Dense, flatten
    >>> model = staged([flatten, Dense(8), nn.tanh], [Dense(3)])
    >>> params = init(model, jax.random.key(0), jax.numpy.zeros((1, 2, 2)))
    >>> count(params), apply(model, params, jax.numpy.ones((5, 2, 2))).shape
    (67, (5, 3))
    """
    modules = (s if isinstance(s, nn.Module) else Stage(tuple(s)) for s in stages)
    return Staged(tuple(modules))


def init(model: nn.Module, key: Key, x: jax.Array) -> Params:
    """Parameters for inputs like x [B, ...], of which only shape and dtype are used."""
    # Lazy: the parameters are drawn, the forward pass is only traced.
    variables = model.lazy_init(key, jax.ShapeDtypeStruct(x.shape, x.dtype))
    extra = sorted(set(variables) - {"params"})
    if extra:
        raise ValueError(
            f"the model keeps {extra} besides its parameters, but must be a pure "
            "function of them: use GroupNorm instead of BatchNorm"
        )
    return variables.get("params", {})


def apply(
    model: nn.Module, params: Params, x: jax.Array, key: Key | None = None
) -> jax.Array:
    """Logits; with a key in training mode (dropout drawn from it), else evaluation."""
    logits: Any = model.apply({"params": params}, x, **_mode(key))
    return logits


def forward(
    model: Staged,
    params: Params,
    h: jax.Array,
    *,
    start: int = 0,
    key: Key | None = None,
) -> tuple[jax.Array, ...]:
    """Outputs of the stages from `start` on, for h the input of stage `start`.

    `params` is the full tree. Dropout depends on the key and on the place in the
    network only, so one key gives a stage the same mask whatever `start` is.
    """
    at: Any = {"params": params}, h, start
    outputs: Any = model.apply(*at, method="hidden", **_mode(key))
    return outputs


def count(params: Params) -> int:
    """Number of parameters d; also of the result of `jax.eval_shape`."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def _mode(key: Key | None) -> dict[str, Any]:
    if key is None:
        return {"train": False}
    return {"train": True, "rngs": {"dropout": key}}
