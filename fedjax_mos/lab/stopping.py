"""When a run is over before its last round, because its target is reached."""

import math
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.engine.block import MOST
from fedjax_mos.engine.endings import Stop
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


def deciding(stop: Stop | None) -> Stop | None:
    """On which a run depends: `stop`, or who `decides` where that one only looks."""
    return getattr(stop, "decides", stop)


class LaneStop:
    """Asks every lane by itself whether that is enough; all have to say so.

    A lane is asked as its run alone would be: after every tenth round, if one of the
    ten was evaluated. What a lane says depends on its rows alone, so that a resumed
    piece asks anew.
    """

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.ends: dict[int, int] = {}  # lane -> the round after which it stops
        self.asked = 0

    def __call__(self, frame: "pd.DataFrame") -> bool:
        last, known = int(frame["round"].max()), set(frame["lane"])
        metric = summaries.main_metric(frame)
        for at in range(self.asked + MOST, last + 1, MOST):
            for lane in sorted(known - self.ends.keys()):
                rows = frame[(frame["lane"] == lane) & (frame["round"] <= at)]
                news = rows[metric].tail(MOST).notna().any()
                own = rows.drop(columns="lane").reset_index(drop=True)
                if news and self.stop(own):
                    self.ends[lane] = at
            self.asked = at
        return known <= self.ends.keys()

    def until(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """Every lane's rows up to where it would have stopped by itself."""
        self(frame)
        ends = frame["lane"].map(self.ends).fillna(math.inf)
        return frame[frame["round"] <= ends].reset_index(drop=True)
