"""The updates of a tuning, in memory or in a folder that outlives it."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_mos.lab.folders import read_json, write_json
from fedjax_mos.lab.sweeps.ledger import claim

_INSIDE = "updates"


class Update(NamedTuple):
    """A point that was tried: what was found there."""

    value: float
    slope: list[float]  # on the scales of the point
    means: dict[str, float]  # of the numbers, by name
    still: list[str]  # names whose gradient is zero
    norm: float
    growth: float
    unstable: str
    horizon: int
    cost: int  # rounds
    seconds: float


class Updates:
    """Number -> update. A folder of the same plan is resumed, any other refused."""

    def __init__(self, plan: dict[str, Any], out: Path | None) -> None:
        self.out, self.known = out, []
        if out is not None:
            claim(out, plan, _INSIDE)
            paths = sorted((out / _INSIDE).glob("[0-9]*.json"))
            self.known = [_read(path) for path in paths]

    def add(self, number: int, update: Update) -> None:
        """Keep an update; on disk it appears whole or not at all."""
        if self.out is not None:
            path = self.out / _INSIDE / f"{number:05}.json"
            write_json(path, update._asdict())


def _read(path: Path) -> Update:
    stored = read_json(path)
    numbers = {n: _number(stored[n]) for n in ("value", "norm", "growth")}
    slope = np.array(stored["slope"], float).tolist()  # null: not a finite number
    return Update(**stored | numbers | {"slope": slope})


def _number(value: float | None) -> float:
    return math.nan if value is None else value
