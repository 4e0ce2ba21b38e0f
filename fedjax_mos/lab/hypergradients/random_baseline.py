"""Tuning by gradient against a random sweep that costs as many rounds."""

from pathlib import Path

from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.scales import Bounds, drawn, scales_of
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
    out: Path | str | None = None,
    progress: bool = True,
) -> Cube:
    """Random points of the same box, as many as the tuning's cost pays for."""
    cells = int(tuned.frame["cost"].iloc[-1]) // (experiment.rounds * seeds)
    points = draws(experiment, wrt, cells, bounds)
    return sweep(experiment, points, seeds=seeds, out=out, progress=progress)


def draws(
    experiment: Experiment, wrt: Wrt | None, times: int, bounds: Bounds | None = None
) -> list[dict[str, float]]:
    """Random points of the box that `tune` stays in, even on the same scales."""
    _, named = with_named(experiment, wrt)
    scales = scales_of(experiment, named, bounds or {})
    return drawn(scales, times, experiment.seed)
