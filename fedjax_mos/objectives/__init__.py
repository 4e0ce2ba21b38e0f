"""What a client minimises: objectives, and the terms that they are sums of."""

from fedjax_mos.objectives import methods, terms
from fedjax_mos.objectives.base import (
    Objective,
    TermView,
    near_anchor,
    plain,
    proximal,
    shaped,
)

__all__ = [
    "Objective",
    "TermView",
    "methods",
    "near_anchor",
    "plain",
    "proximal",
    "shaped",
    "terms",
]
