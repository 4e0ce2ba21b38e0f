"""Tuning by gradient: an experiment's numbers descend their own training run.

Numbers on a half line (rates, weights) move on a log scale, those on the unit interval
(STORM's mixing, momenta) on a logit scale: the glossary's ranges decide. On that scale
they stay in a box.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.special import expit, logit
from jax.typing import ArrayLike

from fedjax_mos.experiment import Experiment
from fedjax_mos.gradients.hypergrad import (
    FEDMOS,
    Hypergradient,
    Mode,
    differentiator,
    runs,
)
from fedjax_mos.gradients.numbers import Numbers, Wrt, home, with_numbers
from fedjax_mos.hyperparameters import GLOSSARY
from fedjax_mos.interrupts import patience
from fedjax_mos.problem import Problem
from fedjax_mos.types import PyTree

if TYPE_CHECKING:
    import pandas as pd

Bounds = Mapping[str, tuple[float, float]]
LINE, UNIT = (1e-4, 10.0), (0.01, 0.99)
STEP_SIZE = 0.3


class Scale(NamedTuple):
    """A number's way to an unbounded scale and back, and its box."""

    free: Callable[[ArrayLike], jax.Array]
    back: Callable[[ArrayLike], jax.Array]
    low: float
    high: float


class Tuned(NamedTuple):
    """The best point on the way, and the way: one row of `trajectory` per update.

    `experiment` has those numbers that are single ones, `numbers` all of them. In the
    trajectory an array stands with its mean, and `cost` counts rounds so far, those of
    a gradient as often as `hypergrad.runs` says.
    """

    experiment: Experiment
    numbers: Numbers
    trajectory: "pd.DataFrame"


def tune(
    experiment: Experiment,
    wrt: Wrt = FEDMOS,
    objective: str = "valid_loss",
    *,
    updates: int = 25,
    seeds: int = 1,
    optimizer: optax.GradientTransformation | None = None,
    bounds: Bounds | None = None,
    mode: Mode = "auto",
    progress: bool = True,
) -> Tuned:
    """Descend `objective` after the last round in the numbers `wrt`, as in `hypergrad`.

    By default the objective is measured on held-out data. The best point of all is
    returned, not the last. Where the horizon is unstable there is no gradient to
    follow: the next point is half way back to the best so far. `bounds` are [1e-4, 10]
    or [0.01, 0.99], or wider to hold the start; a 0 or 1 starts at the bound next to
    it. `optimizer` is `usual(0.3)` if none is given. An interrupt (Ctrl-C) ends the
    tuning after the update under way.
    """
    import pandas as pd
    from tqdm import tqdm

    if updates < 1:
        raise ValueError(f"updates must be at least 1: got {updates}")
    scales, problem, numbers = _scaled(experiment, wrt, bounds or {})
    at = differentiator(
        problem, experiment.rounds, objective, experiment.seed, seeds, mode
    )
    optimizer = optimizer or usual(STEP_SIZE)
    point = _boxed(scales, _each(scales, "free", numbers))
    memory, best, lowest = optimizer.init(point), point, math.inf
    rows, begin = [], time.perf_counter()
    bar = tqdm(range(updates), unit="update", disable=not progress)
    with patience() as interrupted:
        for update in bar:
            numbers, pull = jax.vjp(lambda p: _each(scales, "back", p), point)
            found = at(numbers)
            tried: dict[str, Any] = {"update": update, objective: found.value}
            rows.append(tried | _row(numbers, found))
            rows[-1]["seconds"] = time.perf_counter() - begin
            bar.set_postfix({objective: f"{found.value:.4g}"})
            if update == 0:
                _check_start(found)
            if not found.unstable and found.value < lowest:
                best, lowest = point, found.value
            if interrupted.is_set():
                break
            if found.unstable:
                point = jax.tree.map(lambda here, good: (here + good) / 2, point, best)
                continue
            (slope,) = pull(jax.tree.map(jnp.asarray, found.gradient))
            move, memory = optimizer.update(slope, memory, point)
            point = _boxed(scales, optax.apply_updates(point, move))
    trajectory = pd.DataFrame(rows)
    one = experiment.rounds * seeds * runs(found.mode, numbers)
    trajectory["cost"] = one * (trajectory["update"] + 1)
    chosen = jax.device_get(_each(scales, "back", best))
    return Tuned(_with(experiment, chosen), chosen, trajectory)


def usual(step_size: float) -> optax.GradientTransformation:
    """Adam on gradients of norm at most one: no steep place dwarfs what comes later."""
    if not step_size > 0:
        raise ValueError(f"step_size must be positive: got {step_size}")
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(step_size))


def draws(
    experiment: Experiment, wrt: Wrt, times: int, bounds: Bounds | None = None
) -> list[dict[str, float]]:
    """Random points of the box that `tune` stays in, even on the same scales."""
    scales, _, _ = _scaled(experiment, wrt, bounds or {})
    rng = np.random.default_rng(experiment.seed)
    return [
        {n: float(s.back(rng.uniform(s.low, s.high))) for n, s in scales.items()}
        for _ in range(times)
    ]


def _scaled(
    experiment: Experiment, wrt: Wrt, bounds: Bounds
) -> tuple[dict[str, Scale], Problem, Numbers]:
    """The scales of the numbers, the problem that takes them, and where they start."""
    unknown = [name for name in bounds if name not in wrt]
    if unknown:
        raise ValueError(
            f"bounds must be of numbers in wrt, {', '.join(wrt)}: got {unknown[0]}"
        )
    problem, numbers = with_numbers(experiment, wrt)
    scales = {
        name: _scale(name, home(experiment, name)[1], value, bounds.get(name))
        for name, value in numbers.items()
    }
    return scales, problem, numbers


def _scale(
    name: str, option: str, start: PyTree, given: tuple[float, float] | None
) -> Scale:
    unit = GLOSSARY[option].high == 1
    inside = [v for v in np.ravel(_flat(start)) if v > 0 and not (unit and v == 1)]
    low, high = given or (
        min(inside + [(UNIT if unit else LINE)[0]]),
        max(inside + [(UNIT if unit else LINE)[1]]),
    )
    most = 1 if unit else math.inf
    if not 0 < low < high < most:
        raise ValueError(
            f"bounds of {name} must be 0 < low < high < {most:g}: got {low}, {high}"
        )
    free, back = (logit, expit) if unit else (jnp.log, jnp.exp)
    return Scale(free, back, float(free(low)), float(free(high)))


def _each(scales: Mapping[str, Scale], way: str, values: Numbers) -> Numbers:
    """Every leaf of every number, one way or `back`."""
    return {
        name: jax.tree.map(getattr(scale, way), values[name])
        for name, scale in scales.items()
    }


def _boxed(scales: Mapping[str, Scale], point: Numbers) -> Numbers:
    return {
        name: jax.tree.map(partial(jnp.clip, min=s.low, max=s.high), point[name])
        for name, s in scales.items()
    }


def _row(numbers: Numbers, found: Hypergradient) -> dict[str, float | str]:
    means = {name: float(np.mean(_flat(value))) for name, value in numbers.items()}
    size = {"norm": found.norm, "growth": float(found.growth[-1])}
    return means | size | {"unstable": found.unstable}


def _flat(value: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(value)])


def _check_start(found: Hypergradient) -> None:
    if found.unstable:
        raise ValueError(f"the start must be stable: {found.unstable}")
    for name, slope in found.gradient.items():
        if not _flat(slope).any():
            raise ValueError(
                f"the objective does not depend smoothly on {name}: its gradient is "
                "zero at the start; sweep it"
            )


def _with(experiment: Experiment, numbers: Numbers) -> Experiment:
    """The experiment with all numbers that an option can hold."""
    leaves = {n: v for n, v in numbers.items() if jax.tree_util.all_leaves([v])}
    single = {n: float(v) for n, v in leaves.items() if np.ndim(v) == 0}
    return dataclasses.replace(experiment, options={**experiment.options, **single})
