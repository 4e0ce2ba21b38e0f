"""Who took part, round by round: a report for `run`, and its tidy frame."""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.types import PyTree, RoundInfo, RoundState

if TYPE_CHECKING:
    import pandas as pd

_PREFIX = "cohort_"


def report_cohort(state: RoundState, info: RoundInfo) -> PyTree:
    """For `fm.run(report=fm.report_cohort)`: ids, weights, bits and measurements."""
    cohort = info.cohort
    found = {
        "client": cohort.ids,
        "weight": cohort.weights,
        "live": cohort.mask,
        "bits_up": info.bits_up,
        "bits_down": info.bits_down,
        **{f"local_{name}": values for name, values in info.slots.items()},
    }
    return {_PREFIX + name: values for name, values in found.items()}


# It holds nothing of this process: a program with it may be kept on disk.
report_cohort.identity = "report_cohort"  # type: ignore[attr-defined]


def split_cohorts(
    frame: "pd.DataFrame",
) -> "tuple[pd.DataFrame, pd.DataFrame | None]":
    """The frame of a run without what `report_cohort` put in, and that by itself.

    The second one is tidy: one row per round (and lane or seed) and live client, with
    the columns client, weight, bits_up, bits_down (of this round) and what the client
    measured. None if there was no such report.
    """
    import pandas as pd

    reported = [name for name in frame if str(name).startswith(_PREFIX)]
    if not reported:
        return frame, None
    index = [name for name in ("lane", "seed", "round") if name in frame]
    live = np.stack(list(frame[_PREFIX + "live"]))
    columns = {
        name: np.repeat(frame[name], live.shape[1])[live.ravel()] for name in index
    }
    names = {str(name).removeprefix(_PREFIX) for name in reported} - {"live"}
    first = ["client", "weight", "bits_up", "bits_down"]
    for name in [*first, *sorted(names - {*first})]:
        columns[name] = np.stack(list(frame[_PREFIX + name]))[live]
    tidy = pd.DataFrame({name: np.asarray(v) for name, v in columns.items()})
    return frame.drop(columns=reported), tidy
