"""Runs in a few numbers: final values, rounds to targets, smoothness."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab.columns import falls, in_percent

if TYPE_CHECKING:
    import pandas as pd

_FAVOURITES = [
    f"{store}_{metric}"
    for metric in ("accuracy", "loss")
    for store in ("test", "valid", "train")
]
_CHOOSING = [
    f"{store}_{metric}"
    for metric in ("accuracy", "loss")
    for store in ("valid", "held_out")
]


def main_metric(columns: "Container[str] | pd.DataFrame") -> str:
    """What runs are judged by: the test accuracy, or what comes nearest to it."""
    found = [name for name in _FAVOURITES if name in columns]
    return found[0] if found else "local_loss"


def choosing_metric(columns: "Container[str] | pd.DataFrame") -> str | None:
    """What configurations may be chosen by: of validation data, or of held-out ones.

    None where there are neither: a choice by the test data would spoil their report.

    >>> choosing_metric(["test_accuracy", "held_out_accuracy", "held_out_loss"])
    'held_out_accuracy'
    """
    found = [name for name in _CHOOSING if name in columns]
    return found[0] if found else None


def metrics_of(frame: "pd.DataFrame") -> list[str]:
    """Columns that measure a model, rather than count something."""
    counted = ("round", "seed", "lane", "bits_up", "bits_down", "seconds", "diverged")
    numbers = frame.select_dtypes("number")
    return [str(n) for n in numbers if n not in counted and n != "configuration"]


def check_metric(frame: "pd.DataFrame", metric: str | None) -> str:
    """`metric`, or the main one; a ValueError if there is no such column."""
    if metric is None:
        return main_metric(frame)
    if metric not in (known := metrics_of(frame)):
        raise ValueError(f"metric must be one of {', '.join(known)}: got {metric!r}")
    return metric


def check_target(target: float, metric: str) -> float:
    """`target`, or a ValueError."""
    if in_percent(metric) and not 0 < target <= 1:
        raise ValueError(f"target must lie in (0, 1]: got {target}")
    if not np.isfinite(target):
        raise ValueError(f"target must be a finite number: got {target}")
    return target


def rounds_to_target(
    frame: "pd.DataFrame", target: float, metric: str = "test_accuracy"
) -> float:
    """The first round whose metric reaches `target`, NaN if none does; no smoothing.

    For a loss or an error reaching means falling to it. Models that are not finite
    reach nothing.
    """
    frame = finite(frame)
    values = frame[metric]
    reached = values <= target if falls(metric) else values >= target
    return float(frame["round"][reached].min())


def at_round(frame: "pd.DataFrame", round: int, metric: str) -> float:
    """The metric after a round; NaN if it was not evaluated then."""
    values = frame.loc[frame["round"] == round, metric]
    return float(values.iloc[0]) if len(values) else float("nan")


def smoothed(frame: "pd.DataFrame", metric: str, window: int) -> "pd.Series":
    """Simple moving average over the latest `window` evaluations, by round."""
    if window < 1:
        raise ValueError(f"window must be at least 1: got {window}")
    values = frame.dropna(subset=[metric]).set_index("round")[metric]
    return values.rolling(window, min_periods=1).mean()


def deviation(frame: "pd.DataFrame", metric: str, window: int) -> float:
    """Mean squared deviation of a metric from its moving average.

    In squared percentage points where the metric is a share, as Kim et al. (CVPR 2024)
    print it.
    """
    values = frame.dropna(subset=[metric]).set_index("round")[metric]
    away = values - smoothed(frame, metric, window)
    return float((away**2).mean()) * (1e4 if in_percent(metric) else 1)


def seconds_per_round(frame: "pd.DataFrame") -> float:
    """Median over the rounds after the first visit to the device, which compiles."""
    rates = np.diff(frame["seconds"].to_numpy(), prepend=0)
    later = rates[~np.isclose(rates, rates[0])]
    return float(np.median(later if len(later) else rates))


def summary(frame: "pd.DataFrame", target: float) -> dict[str, Any]:
    """One run in a few numbers; bits and seconds are totals."""
    metric = main_metric(frame)
    losses = [n for n in ("test_loss", "train_loss") if n in frame]
    reached = rounds_to_target(frame, target, metric)
    at = frame[frame["round"] == reached]
    values = finite(frame)[metric]
    best = values.min() if falls(metric) else values.max()
    return {
        "rounds": int(frame["round"].iloc[-1]),
        "metric": metric,
        "final": _final(frame, metric),
        "best": float(best),
        **{f"final_{name}": _final(frame, name) for name in losses},
        "target": target,
        "rounds_to_target": None if np.isnan(reached) else int(reached),
        "bits_to_target": None
        if at.empty
        else int(at["bits_up"].iloc[0] + at["bits_down"].iloc[0]),
        "bits_up": int(frame["bits_up"].iloc[-1]),
        "bits_down": int(frame["bits_down"].iloc[-1]),
        "seconds": float(frame["seconds"].iloc[-1]),
        "seconds_per_round": seconds_per_round(frame),
        "diverged_at": diverged_at(frame),
    }


def finite(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows whose loss and parameters were all finite."""
    return frame[~frame["diverged"].astype(bool)] if "diverged" in frame else frame


def diverged_at(frame: "pd.DataFrame") -> int | None:
    """The first round whose loss or parameters (of any seed) were not all finite."""
    if "diverged" not in frame:
        return None
    rounds = frame["round"][frame["diverged"]]
    return int(rounds.min()) if len(rounds) else None


def by_seed(frame: "pd.DataFrame") -> "dict[int, pd.DataFrame]":
    """Seed -> its own rows, for one seed or several."""
    if "seed" not in frame:
        return {0: frame}
    groups = frame.groupby("seed")
    return {int(str(s)): rows.reset_index(drop=True) for s, rows in groups}


def final(frame: "pd.DataFrame", metric: str) -> "pd.Series":
    """The last evaluated value of every seed; NaN for one that diverged."""
    import pandas as pd

    last = {seed: _final(rows, metric) for seed, rows in by_seed(frame).items()}
    return pd.Series(last, name=metric)


def _final(frame: "pd.DataFrame", metric: str) -> float:
    values = frame[metric].dropna()
    lost = diverged_at(frame) is not None or values.empty
    return float("nan") if lost else float(values.iloc[-1])


def targets(
    frame: "pd.DataFrame", wanted: Sequence[float], metric: str | None = None
) -> "pd.DataFrame":
    """Rounds until each target, one row per target and seed; NaN: not reached.

    `rounds` is how many were run, the T of "T+".
    """
    import pandas as pd

    name = check_metric(frame, metric)
    rows = [
        {
            "seed": seed,
            "metric": name,
            "target": check_target(target, name),
            "reached": rounds_to_target(run, target, name),
            "rounds": int(run["round"].max()),
        }
        for target in wanted
        for seed, run in by_seed(frame).items()
    ]
    return pd.DataFrame(rows)
