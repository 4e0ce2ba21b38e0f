"""When a run is over before its last round: its target is reached, or it diverged."""

from typing import TYPE_CHECKING

from fedjax_mos.engine.run import Stop
from fedjax_mos.lab import summaries

if TYPE_CHECKING:
    import pandas as pd


def stop_of(stop_at: float | None, stop: Stop | None) -> Stop | None:
    """A function of the frame so far: all lanes have reached `stop_at`, or `stop`."""
    if stop_at is None:
        return stop
    target = stop_at

    def enough(frame: "pd.DataFrame") -> bool:
        metric = summaries.main_metric(frame)
        runs = _runs(frame)
        reached = [summaries.rounds_to_target(rows, target, metric) for rows in runs]
        all_there = all(value == value for value in reached)  # NaN: not reached
        return all_there or (stop is not None and bool(stop(frame)))

    return enough


def divergences(frame: "pd.DataFrame") -> "pd.Series":
    """For every run of a frame whether it diverged."""
    import pandas as pd

    return pd.Series([bool(rows["diverged"].iloc[-1]) for rows in _runs(frame)])


def _runs(frame: "pd.DataFrame") -> "list[pd.DataFrame]":
    names = [name for name in ("seed", "lane") if name in frame]
    return [rows for _, rows in frame.groupby(names[0])] if names else [frame]
