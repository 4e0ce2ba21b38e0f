"""What the runs of a piece begin from, and their rounds as rows of a frame."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedjax_mos.engine.endings import INTERRUPTED
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.stopping import LaneStop
from fedjax_mos.lab.structure import hp_of
from fedjax_mos.lab.sweeps.lanes import Lane, Piece
from fedjax_mos.types import Key, RoundState

if TYPE_CHECKING:
    import pandas as pd


def check_lanes(lanes: Sequence[Lane], *, may_stop: bool) -> None:
    """Raise a ValueError for experiments that cannot be lanes."""
    for one in (lane.experiment for lane in lanes):
        if one.cohorts:
            raise ValueError(
                "cohorts must be false here, since cohorts are kept by runs and "
                "comparisons: got True"
            )
        if one.stop_at is not None and not may_stop:
            raise ValueError(
                f"a search stops runs by itself: stop_at must not be given, got "
                f"{one.stop_at}"
            )


def beginning(
    made: Assembled, lanes: Sequence[Lane], piece: Piece
) -> tuple[RoundState, Key]:
    """The first state of a piece's lanes, each with its own numbers and seed."""
    members = [lanes[i].experiment for i in filled_up(piece)]
    every = [hp_of(member, made.sim) for member in members]
    hp = jax.tree.map(lambda *values: np.stack(values), *every)
    seeds = np.array([member.seed for member in members], np.int32)
    return made.begin(seeds, hp)


def filled_up(piece: Piece) -> list[int]:
    """A piece's lanes, and copies of the last one until it has its width.

    Every piece of a group has the same shapes, and so the same program.
    """
    return piece.lanes + piece.lanes[-1:] * (piece.width - len(piece.lanes))


def own_rows(
    history: "pd.DataFrame", piece: Piece, stop: LaneStop | None = None
) -> "pd.DataFrame | None":
    """The rows of a piece's own lanes, to where each stops; None: interrupted."""
    if history.attrs["ended"] == INTERRUPTED:
        return None
    if stop is not None:
        history = stop.until(history)
    # Every row of a run.
    history["diverged"] = history["diverged"].groupby(history["lane"]).transform("any")
    history = history[history["lane"] < len(piece.lanes)].reset_index(drop=True)
    history["lane"] = np.array(piece.lanes)[history["lane"]]
    return history
