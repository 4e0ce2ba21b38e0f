"""Tuning by gradient against a random sweep that costs as many rounds."""

import numpy as np

from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.scales import Bounds, scales_of
from fedjax_mos.lab.hypergradients.tuned import Tuned
from fedjax_mos.lab.hypergradients.wrt import Wrt, with_named
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.lab.sweeps.sweep import sweep


def random_baseline(
    experiment: Experiment,
    wrt: Wrt | None,
    tuned: Tuned,
    *,
    seeds: int = 1,
    bounds: Bounds | None = None,
    progress: bool = True,
) -> Cube:
    """Random points of the same box, as many as the tuning's cost pays for."""
    cells = int(tuned.frame["cost"].iloc[-1]) // (experiment.rounds * seeds)
    points = draws(experiment, wrt, cells, bounds)
    return sweep(experiment, points, seeds=seeds, progress=progress)


def draws(
    experiment: Experiment, wrt: Wrt | None, times: int, bounds: Bounds | None = None
) -> list[dict[str, float]]:
    """Random points of the box that `tune` stays in, even on the same scales."""
    _, named = with_named(experiment, wrt)
    scales = scales_of(experiment, named, bounds or {})
    rng = np.random.default_rng(experiment.seed)
    return [
        {n: float(s.back(rng.uniform(s.low, s.high))) for n, s in scales.items()}
        for _ in range(times)
    ]
