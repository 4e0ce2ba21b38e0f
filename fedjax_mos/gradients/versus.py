"""Tuning by gradient against a random sweep that costs as many rounds."""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.experiment import Experiment
from fedjax_mos.gradients.numbers import Wrt
from fedjax_mos.gradients.tune import Bounds, Tuned, draws
from fedjax_mos.sweeps.cube import Cube
from fedjax_mos.sweeps.sweep import sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rival(
    experiment: Experiment,
    wrt: Wrt,
    tuned: Tuned,
    *,
    seeds: int = 1,
    bounds: Bounds | None = None,
    progress: bool = True,
) -> Cube:
    """Random points of the same box, as many as the tuning's cost pays for."""
    cells = int(tuned.trajectory["cost"].iloc[-1]) // (experiment.rounds * seeds)
    points = draws(experiment, wrt, cells, bounds)
    return sweep(experiment, points, seeds=seeds, progress=progress)


def picture(tuned: Tuned, cube: Cube | None = None) -> "Figure":
    """The best objective so far by cost, of both, and the numbers on their way."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    way, objective = tuned.trajectory, str(tuned.trajectory.columns[1])
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)  # no screen needed
    left, right = figure.subplots(1, 2)
    stable = way[objective].where(way["unstable"] == "")
    left.plot(way["cost"], way[objective], "o", alpha=0.4, label="points tried")
    left.plot(way["cost"], stable.cummin().ffill(), label="tuned by gradient")
    if cube is not None:
        found = cube.cells(objective).sort_index()["mean"]  # in the order of drawing
        one = cube.frame["round"].max() * cube.frame["seed"].nunique()
        spent = one * np.arange(1, len(found) + 1)
        left.plot(spent, found.cummin().ffill(), label="random sweep")
    left.set(xlabel="cost in rounds", ylabel=objective, yscale="log")
    for name in tuned.numbers:
        right.plot(way["update"], way[name], label=name)
    right.set(xlabel="update", ylabel="value", yscale="log")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        axis.legend()
    return figure
