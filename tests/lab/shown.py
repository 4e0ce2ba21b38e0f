"""Tiny results of every kind, for tests of what shows them."""

import dataclasses
from functools import cache

import fedjax_mos as fm
from tests.lab.tiny import TINY

# Members that differ in a number share a program.
KEPT = dataclasses.replace(
    TINY, rounds=3, held_out=0.2, per_client="personal", cohorts=True
)
MEMBERS = {
    "fast": dataclasses.replace(KEPT, options={"lr": 0.5}),
    "still": dataclasses.replace(KEPT, options={"lr": 1e-6}),
}


@cache
def comparison():
    """Two members, two seeds, with cohorts and clients."""
    return fm.compare(MEMBERS, 2, progress=False)


@cache
def grid():
    """A sweep over a grid of two numbers."""
    return fm.sweep(
        TINY, lr=[0.1, 0.2, 0.4], server_lr=[0.5, 1.0], seeds=2, progress=False
    )


@cache
def points():
    """A random sweep over two numbers, of which one spans orders of magnitude."""
    ranges = {"lr": fm.Range(1e-3, 1.0), "server_lr": fm.Range(0.9, 1.1)}
    return fm.sweep(TINY, random=12, progress=False, **ranges)


@cache
def tuned():
    """A number tuned by gradient."""
    return fm.tune(TINY, ("lr",), updates=2, candidates=0, progress=False)
