"""When a run is over before its last round, because its target is reached."""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.engine.run import Stop
from fedjax_mos.lab import summaries

if TYPE_CHECKING:
    import pandas as pd


def stop_of(stop_at: float | None, stop: Stop | None) -> Stop | None:
    """A function of the frame so far: all seeds have reached `stop_at`, or `stop`."""
    if stop_at is None:
        return stop
    target = stop_at

    def enough(frame: "pd.DataFrame") -> bool:
        reached = summaries.targets(frame, [target])["reached"]
        return not np.isnan(reached).any() or (stop is not None and bool(stop(frame)))

    return enough
