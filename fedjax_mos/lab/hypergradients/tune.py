"""Tuning by gradient: an experiment's numbers descend their own training run."""

import dataclasses
import math
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.lab import options
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.hypergrad import (
    Hypergradient,
    Mode,
    default_objective,
    differentiator,
    runs,
)
from fedjax_mos.lab.hypergradients.scales import (
    Bounds,
    back,
    boxed,
    flat,
    free,
    scales_of,
)
from fedjax_mos.lab.hypergradients.tuned import Tuned
from fedjax_mos.lab.hypergradients.wrt import Named, Wrt, with_named

STEP_SIZE = 0.3


def tune(
    experiment: Experiment,
    wrt: Wrt | None = None,
    objective: str | None = None,
    *,
    updates: int = 25,
    seeds: int = 1,
    optimizer: optax.GradientTransformation | None = None,
    bounds: Bounds | None = None,
    mode: Mode = "auto",
    progress: bool = True,
) -> Tuned:
    """Descend `objective` after the last round in the numbers `wrt`, as in `hypergrad`.

    The best point of all is returned, not the last. Where the horizon is unstable there
    is no gradient to follow: the next point is half way back to the best so far.
    `bounds` are [1e-4, 10] or [0.01, 0.99], or wider to hold the start; a 0 or 1 starts
    at the bound next to it. Of the numbers that are tuned because none are named, those
    that the objective does not depend on smoothly are left out. `optimizer` is
    `default_optimizer(0.3)`. An interrupt (Ctrl-C) ends the tuning after the update
    under way.
    """
    import pandas as pd
    from tqdm import tqdm

    if updates < 1:
        raise ValueError(f"updates must be at least 1: got {updates}")
    made, named = with_named(experiment, wrt)
    start = jax.tree.map(np.asarray, named)
    scales = scales_of(experiment, named, bounds or {})
    goal = objective or default_objective(made)
    at = differentiator(made, experiment.rounds, goal, experiment.seed, seeds, mode)
    optimizer = optimizer or default_optimizer(STEP_SIZE)
    point = boxed(scales, free(scales, named))
    memory, best, lowest = optimizer.init(point), point, math.inf
    rows, begin = [], time.perf_counter()
    bar = tqdm(range(updates), unit="update", disable=not progress)
    with deferred_interrupt() as interrupted:
        for update in bar:
            named, pull = jax.vjp(lambda p: back(scales, p), point)
            found = at(named)
            tried: dict[str, Any] = {"update": update, goal: found.value}
            rows.append(tried | _row(named, found))
            rows[-1]["seconds"] = time.perf_counter() - begin
            bar.set_postfix({goal: f"{found.value:.4g}"})
            if update == 0:
                still = _check_start(found, told=wrt is not None)
            if not found.unstable and found.value < lowest:
                best, lowest = point, found.value
            if interrupted.is_set():
                break
            if found.unstable:
                point = jax.tree.map(lambda here, good: (here + good) / 2, point, best)
                continue
            (slope,) = pull(jax.tree.map(jnp.asarray, found.gradient))
            move, memory = optimizer.update(slope, memory, point)
            point = boxed(scales, optax.apply_updates(point, move))
    frame = pd.DataFrame(rows)
    one = experiment.rounds * seeds * runs(found.mode, named)
    frame["cost"] = one * (frame["update"] + 1)
    chosen = jax.device_get(back(scales, best)) | {n: start[n] for n in still}
    return Tuned(_with(experiment, chosen), chosen, frame, goal, updates)


def default_optimizer(step_size: float) -> optax.GradientTransformation:
    """Adam on gradients of norm at most one: no steep place dwarfs what comes later."""
    if not step_size > 0:
        raise ValueError(f"step_size must be positive: got {step_size}")
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(step_size))


def _row(named: Named, found: Hypergradient) -> dict[str, float | str]:
    means = {name: float(np.mean(flat(value))) for name, value in named.items()}
    size = {"norm": found.norm, "growth": float(found.growth[-1])}
    return means | size | {"unstable": found.unstable}


def _check_start(found: Hypergradient, told: bool) -> list[str]:
    """The numbers that the objective does not depend on smoothly; none, if named."""
    if found.unstable:
        raise ValueError(f"the start must be stable: {found.unstable}")
    still = [name for name, slope in found.gradient.items() if not flat(slope).any()]
    if still and (told or len(still) == len(found.gradient)):
        raise ValueError(
            f"the objective does not depend smoothly on {still[0]}: its gradient is "
            "zero at the start; sweep it"
        )
    if still:
        print(f"without a gradient, so left alone: {', '.join(still)}", file=sys.stderr)
    return still


def _with(experiment: Experiment, named: Named) -> Experiment:
    """The experiment with these numbers."""
    plain = {n: jax.tree.map(_plain, value) for n, value in named.items()}
    changed = options.replaced(experiment.options, plain, experiment.parts)
    return dataclasses.replace(experiment, options=changed)


def _plain(leaf: Any) -> Any:
    """A number as Python's own, an array as it is."""
    return np.asarray(leaf).item() if np.ndim(leaf) == 0 else leaf
