"""One name that people type."""

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from fedjax_mos.components import Spec, spec
from fedjax_mos.signatures import Factory

# Words of papers, for the guess in a message.
_ALSO_CALLED = {
    "uniform": "ucs",
    "random": "ucs",
    "multinomial": "md",
    "full": "everyone",
    "topk": "feedback",
    "top_k": "feedback",
    "error_feedback": "feedback",
}


class Entry(NamedTuple):
    """A name: a factory, and where this variant differs from the factory's defaults."""

    factory: Factory
    options: dict[str, Any] = {}  # read only
    tuned: dict[str, dict[str, Any]] = {}  # read only: options by data set
    # For algorithms: the channels that make a recipe, and the only sensible sampler.
    uplink: str = "identity"
    downlink: str = "identity"
    sampler: str | None = None
    # Whether its lr is a client's step size, which comparisons may give to all alike.
    local_lr: bool = True
    # Whether what clients send begins with y_i - x, from the server's own model x.
    sends_move: bool = True

    def spec(self, dataset: str = "") -> Spec:
        """The component with its options on `dataset`."""
        return spec(self.factory, **self.options | self.tuned.get(dataset, {}))


def check_name(kind: str, names: Iterable[str], name: str) -> None:
    """Raise a ValueError that lists the names there are, unless `name` is one."""
    known = list(names)
    if name in known:
        return
    meant = _ALSO_CALLED.get(name.lower())
    asked = meant if meant in known else name
    close = difflib.get_close_matches(asked, known, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ValueError(f"{kind} must be one of {', '.join(known)}: got {name!r}{hint}")
