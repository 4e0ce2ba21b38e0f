"""Which configurations a sweep tries: lists are crossed, ranges are drawn."""

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_mos.lab import options

Configuration = dict[str, Any]
MOST = 20_000  # runs, each of which is checked and listed before the first one starts


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high` to draw from, evenly or evenly in the logarithm."""

    low: float  #: the least number
    high: float  #: the largest number
    log: bool = False  #: evenly in the logarithm

    def __post_init__(self) -> None:
        floor = 0 if self.log else -math.inf
        if not floor < self.low < self.high < math.inf:
            raise ValueError(
                f"a range must have {'0 < ' if self.log else ''}low < high: got "
                f"{self.low} and {self.high}"
            )

    def draw(self, rng: np.random.Generator, times: int) -> list[float]:
        """So many independent values."""
        if self.log:
            ends = math.log(self.low), math.log(self.high)
            return np.exp(rng.uniform(*ends, times)).tolist()
        return rng.uniform(self.low, self.high, times).tolist()


def configurations(
    points: Sequence[Mapping[str, Any]] | None,
    over: Mapping[str, Iterable[Any] | Range],
    random: int | None,
    seed: int,
) -> list[Configuration]:
    """Every point with every combination of the lists and every draw of the ranges.

    >>> configurations(None, {"lr": [0.1, 0.2], "storm": [0.5]}, None, 0)
    [{'lr': 0.1, 'storm': 0.5}, {'lr': 0.2, 'storm': 0.5}]
    """
    if random is not None and random > MOST:
        raise ValueError(f"random must be at most {MOST:,}: got {random:,}")
    explicit = [{}] if points is None else [dict(point) for point in points]
    if not explicit:
        raise ValueError("points must hold at least one configuration: got none")
    for name in over:
        if any(name in point for point in explicit):
            raise ValueError(f"{name} is given twice: in points and by its name")
    ranges = {n: values for n, values in over.items() if isinstance(values, Range)}
    lists = {n: _listed(n, v) for n, v in over.items() if not isinstance(v, Range)}
    check_most(len(explicit) * math.prod(map(len, lists.values())) * (random or 1), 1)
    crossed = [
        dict(zip(lists, values, strict=True))
        for values in itertools.product(*lists.values())
    ]
    drawn = _draws(ranges, random, seed)
    return [a | b | c for a, b, c in itertools.product(explicit, crossed, drawn)]


def check_most(count: int, seeds: int, what: str = "configurations") -> None:
    """Raise a ValueError for more runs than one sweep keeps account of."""
    if count * seeds > MOST:
        raise ValueError(
            f"a sweep must have at most {MOST:,} runs: got {count:,} {what} x "
            f"{seeds:,} seeds; make several sweeps of it"
        )


def parse_over(settings: Iterable[str]) -> dict[str, list[str] | Range]:
    """`["lr=0.1,0.3", "storm=uniform:0:1", "prox=log:0.001:1"]` by name.

    >>> parse_over(["sampler=ucs,md", "lr=log:0.01:1"])
    {'sampler': ['ucs', 'md'], 'lr': Range(low=0.01, high=1.0, log=True)}
    """
    out: dict[str, list[str] | Range] = {}
    for name, text in options.parse(settings, "--over").items():
        kind, *ends = text.split(":")
        if kind not in ("log", "uniform"):
            out[name] = text.split(",")
            continue
        try:
            low, high = map(float, ends)
        except ValueError:
            raise ValueError(
                f"--over {name}={text} must be {kind}:LOW:HIGH with two numbers"
            ) from None
        out[name] = Range(low, high, kind == "log")
    return out


def _draws(
    ranges: Mapping[str, Range], random: int | None, seed: int
) -> list[Configuration]:
    if bool(ranges) != (random is not None):
        raise ValueError(
            f"{', '.join(ranges)} has a range: say how many draws by random= (--random)"
            if ranges
            else f"random={random} draws from ranges, and no name has one"
        )
    if random is None:
        return [{}]
    if random < 1:
        raise ValueError(f"random must be at least 1: got {random}")
    rng = np.random.default_rng(seed)
    columns = [values.draw(rng, random) for values in ranges.values()]
    return [dict(zip(ranges, row, strict=True)) for row in zip(*columns, strict=True)]


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise ValueError(f"{name} must be a list of values: got {values!r}")
    # Numbers out of an array as Python's own.
    out = [v.item() if getattr(v, "shape", None) == () else v for v in values]
    if not out:
        raise ValueError(f"{name} must have at least one value: got an empty list")
    return out
