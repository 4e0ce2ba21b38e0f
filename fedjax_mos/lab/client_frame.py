"""One row per client after a run: its size, how often it took part, how it fares."""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.processes import on_host
from fedjax_mos.tree import gather
from fedjax_mos.types import RoundState

if TYPE_CHECKING:
    import pandas as pd


def client_frame(
    made: Assembled,
    state: RoundState,
    cohorts: "pd.DataFrame | None",
    first_seed: int | None,
) -> "pd.DataFrame | None":
    """What is known of every client (and seed, if there is a first one).

    `participations` if cohorts were kept, metrics if clients are measured; None if
    neither.
    """
    import pandas as pd

    if made.by_client is None and cohorts is None:
        return None
    lanes = 1 if first_seed is None else len(state.round)
    frames = []
    for lane in range(lanes):
        own = state if first_seed is None else gather(state, lane)
        size = np.asarray(made.data.size)
        columns = {"client": np.arange(len(size)), "examples": size}
        if cohorts is not None:
            rows = cohorts
            if first_seed is not None:
                rows = cohorts[cohorts["seed"] == first_seed + lane]
            took_part = np.bincount(rows["client"], minlength=len(size))
            columns["participations"] = took_part
        if made.by_client is not None:
            stores, own = made.sim.backend.place(made.stores, own, False)
            values = made.by_client(own, stores)
            columns |= on_host(values)
        frame = pd.DataFrame(columns)
        if first_seed is not None:
            frame.insert(0, "seed", first_seed + lane)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
