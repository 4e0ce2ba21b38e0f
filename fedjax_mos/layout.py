"""Backends by name."""

from collections.abc import Callable

import jax

from fedjax_mos import backends
from fedjax_mos.types import Backend, Params


def backend_of(name: str, params: Params) -> Backend:
    """The backend called `name`; auto decides by platform and kind of model."""
    kind, slots = backend_parts(name)
    if kind == "auto":
        # Measured (benchmarks/NOTES.md): on CPU the patches of a convolution fit the
        # cache for one client at a time; dense models gain from larger products.
        convolutional = any(leaf.ndim == 4 for leaf in jax.tree.leaves(params))
        on_cpu = jax.default_backend() == "cpu"
        kind = "chunked" if convolutional and on_cpu else "vmapped"
    chunked = backends.chunked(slots or 1)
    made: dict[str, Callable[[], Backend]] = {
        "vmapped": backends.vmapped,
        "chunked": lambda: chunked,
        "sharded": lambda: backends.sharded(inner=chunked),
        "debug": backends.debug,
    }
    return made[kind]()


def backend_parts(name: str) -> tuple[str, int | None]:
    """Kind and slots of a name such as chunked:4, or a ValueError."""
    kind, colon, slots = name.partition(":")
    sized = kind in ("chunked", "sharded")
    if kind not in ("auto", "vmapped", "chunked", "sharded", "debug") or (
        colon and not (sized and slots.isdigit() and int(slots) > 0)
    ):
        raise ValueError(
            "backend must be auto, vmapped, chunked:SLOTS, sharded:SLOTS or debug: "
            f"got {name!r}"
        )
    return kind, int(slots) if colon else None
