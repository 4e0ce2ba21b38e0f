"""Which rounds are run between two looks at the host, and which are evaluated."""

from collections.abc import Iterator

import numpy as np

from fedjax_mos.engine import host_updates
from fedjax_mos.engine.block import MOST
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.processes import of_all
from fedjax_mos.types import HostUpdate


def visits(
    first: int,
    last: int,
    update: HostUpdate | None,
    pace: Pace,
    most: int = MOST,
) -> Iterator[tuple[int, int]]:
    """The rounds [begin, end) of each visit to the device.

    A visit ends where the host has work, at a multiple of `MOST` rounds, after `most`,
    and before an interrupt would have to wait for long. Why a run is over is asked at
    multiples of `MOST` only, so that it does not depend on the machine's speed.

    >>> list(visits(5, 22, None, Pace(each=0.0)))
    [(5, 10), (10, 20), (20, 22)]
    >>> list(visits(0, 5, None, Pace(each=1.0)))
    [(0, 2), (2, 4), (4, 5)]
    """
    begin = first
    while begin < last:
        border = min(last, begin - begin % MOST + MOST)
        end = min(border, begin + min(most, *of_all(pace.rounds())))
        end = host_updates.next_stop(update, begin, end)
        yield begin, end
        begin = end


def evaluated_in(begin: int, end: int, last: int, every: int) -> np.ndarray:
    """[MOST] Which rounds of a visit are evaluated: by their number, and the last."""
    done = begin + 1 + np.arange(MOST)  # rounds that are over then
    return ((done % every == 0) | (done == last)) & (done <= end)
