"""Tuning by gradient: an experiment's numbers descend their own training run."""

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path

import jax
import numpy as np

from fedjax_mos.folder_lock import alone
from fedjax_mos.lab import folders
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.coordinates import Coordinates
from fedjax_mos.lab.hypergradients.hypergrad import (
    Mode,
    check_asked,
    default_objective,
    differentiator,
)
from fedjax_mos.lab.hypergradients.scales import Bounds, scales_of
from fedjax_mos.lab.hypergradients.shapes import shape_of
from fedjax_mos.lab.hypergradients.start import (
    halved,
    numbers_of,
    winner_of,
    with_numbers,
)
from fedjax_mos.lab.hypergradients.tuned import Tuned
from fedjax_mos.lab.hypergradients.updates import Updates
from fedjax_mos.lab.hypergradients.way import Way
from fedjax_mos.lab.hypergradients.wrt import Named, Wrt
from fedjax_mos.lab.run_folder import given_back
from fedjax_mos.lab.searches.found import Search
from fedjax_mos.lab.sweeps.grid import check_most
from fedjax_mos.lab.sweeps.ledger import plan_of
from fedjax_mos.signatures import check_number
from fedjax_mos.types import Interval

STEP_SIZE = 0.3


def tune(
    experiment: Experiment | Search,
    wrt: Wrt | None = None,
    objective: str | None = None,
    *,
    schedules: Mapping[str, str] | None = None,
    candidates: int = 64,
    updates: int = 25,
    seeds: int = 1,
    step_size: float = STEP_SIZE,
    bounds: Bounds | None = None,
    mode: Mode = "auto",
    horizon: int | None = None,
    out: Path | str | None = None,
    progress: bool = True,
) -> Tuned:
    """Descend `objective` after the last round in the numbers `wrt`, as in `hypergrad`.

    First a halving chooses among so many random `candidates` and the start (0, or a
    `Search` to begin from: none). Then the best point moves in a trust region, by at
    most `step_size` at first on the log or logit scale of every number; a point is
    accepted only if the objective falls. The best of all, the start included, is
    returned. It ends after so many `updates`, one gradient each, or where nothing is
    left to gain.

    `schedules` turns numbers into schedules: "rounds" (one value each), "segments:K" or
    "spline:K" (knots of a cubic spline). `bounds` are [1e-4, 10] or [0.01, 0.99], or
    wider to hold the start. Of the numbers that are tuned because none are named, those
    that the objective does not depend on smoothly are left out. Where the start is
    unstable over all rounds gradients look back over as many as are stable, or
    `horizon`; points that are unstable over that are never accepted.

    With `out`, a folder, the same call is resumed where it was ended, also to more
    updates. An interrupt (Ctrl-C) ends the tuning after the update under way.
    """
    one = winner_of(experiment)
    for name, value, least in (("updates", updates, 1), ("candidates", candidates, 0)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}: got {value}")
    one.check_seeds(seeds)
    check_most(candidates, seeds, "candidates")
    check_number("step_size", step_size, Interval(0, math.inf, open_low=True))
    shapes = {n: shape_of(n, text, one.rounds) for n, text in (schedules or {}).items()}
    one.build(lanes=seeds)  # what does not fit
    made, named = numbers_of(one, wrt, shapes)
    goal = objective or default_objective(made)
    check_asked(made, goal, seeds, mode, horizon)
    scales = scales_of(one, named, bounds or {})
    asked = {
        "numbers": folders.as_json(named),
        "objective": goal,
        "schedules": dict(schedules or {}),
        "candidates": 0 if isinstance(experiment, Search) else candidates,
        "seeds": seeds,
        "step_size": step_size,
        "bounds": {n: list(box) for n, box in (bounds or {}).items()},
        "mode": mode,
        "horizon": horizon,
    }
    with contextlib.ExitStack() as stack:
        folder = None if out is None else Path(out)
        if folder is not None:
            stack.enter_context(alone(folder))
            stack.enter_context(given_back(folder))
        log = Updates({} if out is None else plan_of("tuning", one, **asked), folder)
        start = jax.tree.map(np.asarray, named)
        way = Way(
            start,
            Coordinates(scales, start, shapes),
            lambda h: differentiator(made, one.rounds, goal, one.seed, seeds, mode, h),
            horizon,
            one.rounds * seeds,
            log,
            told=wrt is not None or bool(shapes),
        )

        def best_first() -> list[Named]:
            best, way.searched = halved(
                one,
                {n: s for n, s in scales.items() if n not in way.still},
                start,
                shapes,
                candidates=asked["candidates"],
                seeds=seeds,
                objective=goal,
                out=folder and folder / "search",
                progress=progress,
            )
            return best

        done = way.go(updates, step_size, best_first, goal, progress)
    chosen = way.best()
    return Tuned(with_numbers(one, chosen), chosen, way.frame(goal), goal, done)
