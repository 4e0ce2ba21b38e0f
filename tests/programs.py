"""Counts compiled programs of rounds."""

from fedjax_mos.engine import block


def forget():
    """Drop all programs, so that those compiled from now on can be counted."""
    block._PROGRAMS.things.clear()


def compiled():
    """How many programs of rounds there are."""
    return sum(run.jitted._cache_size() for run in block._PROGRAMS.things.values())
