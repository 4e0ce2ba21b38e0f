"""The updates of a tuning, in memory or in a folder that outlives it."""

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_mos.lab.files import attempt
from fedjax_mos.lab.folders import DAMAGED, read_json, write_json
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
            self.known = [*_read_all(sorted((out / _INSIDE).glob("[0-9]*.json")))]

    def add(self, number: int, update: Update) -> None:
        """Keep an update; on disk it appears whole or not at all."""
        if self.out is not None:
            path = self.out / _INSIDE / f"{number:05}.json"
            attempt(lambda: write_json(path, update._asdict()), self.out)


def _read_all(paths: Sequence[Path]) -> Iterator[Update]:
    """Updates up to the first that was damaged: the others are computed again."""
    for number, path in enumerate(paths):
        try:
            found = _read(path)
            if path.stem != f"{number:05}":
                raise ValueError(f"{number:05} is missing")
        except DAMAGED as error:
            print(
                f"{path} is damaged ({error}): it and later ones are computed again",
                file=sys.stderr,
            )
            return
        yield found


def _read(path: Path) -> Update:
    stored = read_json(path)
    return Update(
        value=_number(stored["value"]),
        slope=np.array(stored["slope"], float).tolist(),  # null: not a finite number
        means={name: _number(value) for name, value in stored["means"].items()},
        still=list(stored["still"]),
        norm=_number(stored["norm"]),
        growth=_number(stored["growth"]),
        unstable=str(stored["unstable"]),
        horizon=int(stored["horizon"]),
        cost=int(stored["cost"]),
        seconds=_number(stored["seconds"]),
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
