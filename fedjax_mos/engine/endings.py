"""Why runs are over."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from typing_extensions import TypeAliasType

from fedjax_mos.engine.block import MOST
from fedjax_mos.engine.history import History
from fedjax_mos.engine.visits import evaluated_in
from fedjax_mos.processes import of_all

if TYPE_CHECKING:
    import pandas as pd

# In `frame.attrs["ended"]` of what `run` gives.
DONE, DIVERGED, STOPPED, INTERRUPTED = "done", "diverged", "stopped", "interrupted"
FULL = "out of disk"  # which does not take the rows of what was run
# the frame so far -> whether that is enough
Stop = TypeAliasType("Stop", Callable[["pd.DataFrame"], bool])


def ended_by(
    history: History, now: int, last: int, every: int, stop: Stop | None
) -> str:
    """Why a run is over after `now` rounds; empty: it is not.

    Asked at the end and at multiples of `MOST`, whatever the visits between them.
    """
    if now == last:
        return DONE
    if history.rounds == 0 or now % MOST:
        return ""
    if history.diverged.all():
        return DIVERGED
    news = evaluated_in(now - MOST, now, last, every).any()
    if not news or stop is None:
        return ""
    return STOPPED if any(of_all(stop(history.frame()))) else ""
