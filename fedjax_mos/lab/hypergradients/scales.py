"""The scales on which hyperparameters move, and the boxes that they stay in.

Numbers on a half line (rates, weights) move on a log scale, those on the unit interval
(mixing weights, momenta) on a logit scale: the ranges in the factories' signatures
decide. A number without a range moves on a log scale too, and must be positive.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import expit, logit
from jax.typing import ArrayLike
from typing_extensions import TypeAliasType

from fedjax_mos.lab import options
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.wrt import Named, home
from fedjax_mos.types import Interval, PyTree

Bounds = TypeAliasType("Bounds", Mapping[str, tuple[float, float]])
LINE, UNIT = (1e-4, 10.0), (0.01, 0.99)


class Scale(NamedTuple):
    """A number's way to an unbounded scale and back, and its box there."""

    free: Callable[[ArrayLike], jax.Array]
    back: Callable[[ArrayLike], jax.Array]
    low: float
    high: float


Scales = Mapping[str, Scale]


def scales_of(experiment: Experiment, named: Named, bounds: Bounds) -> Scales:
    """The scale of every number; boxes are `bounds`, or wide enough for the start."""
    unknown = [name for name in bounds if name not in named]
    if unknown:
        raise ValueError(
            f"bounds must be of numbers in wrt, {', '.join(named)}: got {unknown[0]}"
        )
    found = {}
    for name, value in named.items():
        kind, path = home(experiment, name)
        interval = options.option_at(experiment.parts[kind].spec, path).interval
        found[name] = _scale(name, interval, value, bounds.get(name))
    return found


def drawn(scales: Scales, times: int, seed: int) -> list[dict[str, float]]:
    """Random points of the box, even on the scales."""
    rng = np.random.default_rng(seed)
    return [
        {n: float(s.back(rng.uniform(s.low, s.high))) for n, s in scales.items()}
        for _ in range(times)
    ]


def flat(value: PyTree) -> np.ndarray:
    """All numbers of a value, in a row."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(value)])


def _scale(
    name: str,
    interval: Interval | None,
    start: PyTree,
    given: tuple[float, float] | None,
) -> Scale:
    unit = interval is not None and interval.high == 1
    usual = UNIT if unit else LINE
    values = flat(start)
    if interval is None and not (values > 0).all():
        raise ValueError(
            f"{name} must be positive to be tuned on a log scale: got {values.min():g}"
        )
    inside = [v for v in values if v > 0 and not (unit and v == 1)]
    low, high = given or (min([*inside, usual[0]]), max([*inside, usual[1]]))
    most = 1 if unit else math.inf
    if not 0 < low < high < most:
        raise ValueError(
            f"bounds of {name} must be 0 < low < high < {most:g}: got {low}, {high}"
        )
    there, home_again = (logit, expit) if unit else (jnp.log, jnp.exp)
    return Scale(there, home_again, float(there(low)), float(there(high)))
