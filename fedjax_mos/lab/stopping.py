"""When a run is over before its last round, because its target is reached."""

import math
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.engine.block import MOST
from fedjax_mos.engine.run import Stop
from fedjax_mos.lab import summaries
from fedjax_mos.lab.columns import in_percent

if TYPE_CHECKING:
    import pandas as pd

    from fedjax_mos.lab.assembled import Assembled


def check_stop_at(stop_at: float | None, made: "Assembled") -> None:
    """Raise a ValueError for what the main metric of an experiment cannot reach."""
    if stop_at is None:
        return
    metric = summaries.main_metric(made.metrics())
    if in_percent(metric) and not 0 < stop_at <= 1:
        raise ValueError(f"stop_at must lie in (0, 1] for {metric}: got {stop_at}")


def stop_of(stop_at: float | None, stop: Stop | None) -> Stop | None:
    """A function of the frame so far: all seeds have reached `stop_at`, or `stop`."""
    if stop_at is None:
        return stop
    target = stop_at

    def enough(frame: "pd.DataFrame") -> bool:
        reached = summaries.targets(frame, [target])["reached"]
        return not np.isnan(reached).any() or (stop is not None and bool(stop(frame)))

    return enough


def until_reached(rows: "pd.DataFrame", stop_at: float | None) -> "pd.DataFrame":
    """Every lane's rows up to where it would have stopped by itself."""
    if stop_at is None:
        return rows
    runs = rows.rename(columns={"lane": "seed"})
    reached = summaries.targets(runs, [stop_at]).set_index("seed")["reached"]
    # A run is asked at multiples of MOST.
    last = {lane: math.ceil(at / MOST) * MOST for lane, at in reached.dropna().items()}
    ends = rows["lane"].map(last).fillna(math.inf)
    return rows[rows["round"] <= ends].reset_index(drop=True)
