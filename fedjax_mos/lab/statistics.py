"""Means over seeds, how far they spread, and whether a difference is luck."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedjax_mos.types import ArrayLike

SPREADS: dict[str, str] = {
    "std": "sample standard deviation over seeds",
    "sem": "standard error of the mean over seeds",
    "ci95": "half width of the 95 % t-interval of the mean over seeds",
}
_ROUNDING = 1e-6  # of float32, in which runs are measured: no spread of differences


class Paired(NamedTuple):
    """A paired t-test over common seeds."""

    difference: float  # mean of ours - theirs
    low: float  # 95 % t-interval of that mean
    high: float
    p_value: float
    seeds: int


def check_spread(kind: str) -> str:
    """`kind`, or a ValueError."""
    if kind not in SPREADS:
        raise ValueError(f"spread must be one of {', '.join(SPREADS)}: got {kind!r}")
    return kind


def spread(values: ArrayLike, kind: str = "std") -> float:
    """How far values spread; NaN for fewer than two, about which nothing is known.

    >>> spread([1.0, 3.0]), spread([1.0])
    (1.4142135623730951, nan)
    """
    check_spread(kind)
    array = np.asarray(values, float)
    if len(array) < 2:
        return float("nan")
    std = float(array.std(ddof=1))
    factor: dict[str, Callable[[int], float]] = {
        "std": lambda n: 1.0,
        "sem": lambda n: n**-0.5,
        "ci95": lambda n: _quantile(n) * n**-0.5,
    }
    return std * factor[kind](len(array))


def paired(ours: ArrayLike, theirs: ArrayLike) -> Paired:
    """Two methods under the same seeds: is the mean difference zero?

    NaN where it cannot be told: with one seed, or where all differences are equal.
    """
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    away = ours - theirs
    mean, count = float(away.mean()), len(away)
    if count < 2:
        return Paired(mean, np.nan, np.nan, np.nan, count)
    half = spread(away, "ci95")
    p_value = np.nan
    if away.std() > _ROUNDING * np.abs([ours, theirs]).max():
        from scipy import stats

        p_value = float(stats.ttest_rel(ours, theirs).pvalue)
    return Paired(mean, mean - half, mean + half, p_value, count)


def _quantile(count: int) -> float:
    """Of Student's t, for a two-sided 95 % interval of a mean."""
    from scipy import stats

    return float(stats.t.ppf(0.975, count - 1))
