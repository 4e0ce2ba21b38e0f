"""Backends by name, and the choice among them."""

import math
import re
from collections.abc import Callable

import jax

from fedjax_mos.backends.devices import meshed, sharded, spread
from fedjax_mos.backends.mapping import chunked, debug, vmapped
from fedjax_mos.machine import device_memory, devices_of
from fedjax_mos.types import Backend, Params

# Rules of `auto` on CPU, from benchmarks/NOTES.md.
_CACHE = 2 * 2**20  # bytes of client models worked on at a time, about a core's share
_TINY = 100_000  # numbers in a cohort's models below which one device is faster
_RAGGED = 3  # the most work of a client over the mean, above which they go one by one


def backend_named(
    name: str,
    params: Params,
    cohort: int = 1,
    lanes: int = 1,
    ragged: float = 1.0,
    platform: str | None = None,
    gradient: Callable[[], int] = int,
) -> Backend:
    """The backend called `name`; auto decides by platform, model and numbers.

    `ragged` is the work of the client with most over the mean (1: all have the same),
    `platform` where the programs are to run: by default where this process does.
    `gradient` gives the bytes that an accelerator needs for a client's gradient.
    """
    kind, slots = backend_parts(name)
    if kind == "auto":
        platform = platform or jax.default_backend()
        memory = device_memory(platform)
        needs = 0 if memory is None else gradient()
        kind, slots = choose(params, cohort, lanes, ragged, platform, memory, needs)
    if shape := _mesh_shape(kind):
        return meshed(*shape)
    inner = vmapped() if slots is None else chunked(min(slots, cohort))
    if kind == "sharded":
        return sharded(inner=inner)
    if kind == "spread":
        return spread(inner=inner)
    return debug() if kind == "debug" else inner


def choose(
    params: Params,
    cohort: int,
    lanes: int,
    ragged: float,
    platform: str,
    memory: int | None = None,
    gradient: int = 0,
) -> tuple[str, int | None]:
    """What auto means: kind and slots (None: all at once).

    On an accelerator everything at once, or as many clients as fit half its `memory`,
    in bytes, with four trees of parameters and what a `gradient` needs each; over
    several of them lanes if they fill them, else clients, or both: as many groups of
    devices as there are lanes. On CPU convolutional clients go one at a time, because
    the patches of one just fit the cache; others as many at a time as fit. Very ragged
    ones go one at a time too: only then their idle steps are skipped.
    With several devices lanes are split over them, unless that takes more than one copy
    for ten lanes to fill them up: then clients. Tiny cohorts are never split; their
    lanes are, with any number of copies. Lanes that do not fit together go one by one.
    """
    leaves = jax.tree.leaves(params)
    size = sum(leaf.size for leaf in leaves)
    bytes_each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
    if platform != "cpu":
        there = devices_of(platform)
        found = _over_accelerators(cohort, lanes, there)
        cohort = -(-cohort // there) if found == "sharded" else cohort
        lanes = -(-lanes // there) if found == "spread" else lanes
        each = 4 * bytes_each + gradient
        fit = max((memory or 2**63) // (2 * each * lanes), 1)
        if fit >= cohort:
            return found, None
        return "chunked" if found == "vmapped" else found, equal(cohort, fit)
    devices = jax.device_count()
    slots = max(_CACHE // bytes_each, 1)
    if ragged > _RAGGED or any(leaf.ndim == 4 for leaf in leaves):
        slots = 1
    kind = None
    whole = cohort == 1 or size * cohort < _TINY
    if lanes >= devices > 1 and (whole or -lanes % devices <= lanes / 10):
        kind, lanes = "spread", -(-lanes // devices)
    elif devices > 1 and not whole:
        kind, cohort = "sharded", -(-cohort // devices)
    if slots >= cohort * lanes:
        return kind or "vmapped", None
    return kind or "chunked", equal(cohort, slots)


def _over_accelerators(cohort: int, lanes: int, devices: int) -> str:
    """Clients are split over as many devices as there are, at most one slot each."""
    groups = max(n for n in range(1, devices + 1) if devices % n == 0 and n <= lanes)
    if devices == 1 or (groups < devices and cohort < devices // groups):
        return "vmapped"
    if groups == devices:
        return "spread"
    return "sharded" if groups == 1 else f"mesh:{groups}x{devices // groups}"


def equal(count: int, most: int) -> int:
    """The width of the fewest pieces of at most `most`, as equal as can be."""
    return math.ceil(count / math.ceil(count / most))


def backend_parts(name: str) -> tuple[str, int | None]:
    """Kind and slots of a name such as chunked:4, or a ValueError.

    A mesh:RUNSxCLIENTS is a kind as it stands.
    """
    if _mesh_shape(name):
        return name, None
    kind, colon, slots = name.partition(":")
    sized = kind in ("chunked", "sharded", "spread")
    if kind not in ("auto", "vmapped", "chunked", "sharded", "spread", "debug") or (
        colon and not (sized and slots.isdigit() and int(slots) > 0)
    ):
        raise ValueError(
            "backend must be auto, vmapped, chunked:SLOTS, sharded[:SLOTS], "
            f"spread[:SLOTS], mesh:RUNSxCLIENTS or debug: got {name!r}"
        )
    if kind == "chunked" and not colon:
        return kind, 1
    return kind, int(slots) if colon else None


def _mesh_shape(name: str) -> tuple[int, int] | None:
    """Groups of devices and devices in each, of a name such as mesh:2x4."""
    found = re.fullmatch(r"mesh:([1-9]\d{0,5})x([1-9]\d{0,5})", name)
    return (int(found[1]), int(found[2])) if found else None
