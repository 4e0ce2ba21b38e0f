"""What fits the machine, asked before anything is allocated."""

import os
from contextlib import suppress
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_memory() -> int:
    """Bytes that this process may hold: the machine's, or less by its limits."""
    found = [2**63]  # where nothing tells, as on Windows
    with suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if resource is not None:
        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        found += [soft] if soft != resource.RLIM_INFINITY else []
    with suppress(OSError, ValueError):  # no container, or one without a limit
        found.append(int(_CONTAINER.read_text()))
    return min(found)


def check_fits(what: str, needed: int, advice: str, room: int | None = None) -> None:
    """Raise a ValueError for what surely does not fit the machine, or `room` of it."""
    room = machine_memory() if room is None else room
    if needed > room:
        raise ValueError(
            f"{what} needs at least {gib(needed)} and the machine has "
            f"{gib(room)}: {advice}"
        )


def gib(size: int) -> str:
    """Bytes for people.

    >>> gib(3 * 2**29)
    '1.5 GiB'
    """
    return f"{size / 2**30:,.1f} GiB"


def in_words(size: int) -> str:
    """Bytes for people, also few.

    >>> in_words(3 * 2**29), in_words(3 * 2**19), in_words(100)
    ('1.5 GiB', '1.5 MiB', '0.1 KiB')
    """
    for unit, name in ((2**30, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size / 2**10:.1f} KiB"
