"""A hyperparameter with one value per round."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import PyTree


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Schedule:
    """One value per round: `values[t]` is that of round t. Any other array stays one.

    A run must not be longer than its schedules.

    >>> import optax
    >>> warm_up = Schedule.of(optax.linear_schedule(0.0, 0.3, 3), rounds=5)
    >>> [round(float(v), 2) for v in warm_up.values]
    [0.0, 0.1, 0.2, 0.3, 0.3]
    """

    values: Any  #: [rounds]

    def __post_init__(self) -> None:
        if callable(self.values):
            raise ValueError(
                "a schedule must be a list with one value per round: got a function; "
                "fm.Schedule.of(function, rounds) makes a schedule of it"
            )
        if isinstance(self.values, list | tuple):
            object.__setattr__(self, "values", np.array(self.values, float))

    @classmethod
    def of(cls, function: Callable[[int], Any], rounds: int) -> "Schedule":
        """The values of `function(round)`, such as an optax schedule."""
        return cls(np.array([float(function(t)) for t in range(rounds)]))

    def __len__(self) -> int:
        return int(np.shape(self.values)[-1])

    def at(self, round: jax.Array) -> jax.Array:
        """The value of a round."""
        return jnp.asarray(self.values)[jnp.minimum(round, len(self) - 1)]


class TooShortError(ValueError):
    """A run is longer than one of its schedules."""


def is_schedule(value: Any) -> bool:
    """For `jax.tree.map(..., is_leaf=is_schedule)`."""
    return isinstance(value, Schedule)


def at_round(hp: PyTree, round: jax.Array) -> PyTree:
    """`hp` with every schedule replaced by its value of this round."""
    return jax.tree.map(
        lambda leaf: leaf.at(round) if is_schedule(leaf) else leaf,
        hp,
        is_leaf=is_schedule,
    )


def at_start(hp: PyTree) -> PyTree:
    """`hp` with every schedule replaced by its first value."""
    return jax.tree.map(
        lambda leaf: leaf.values[..., 0] if is_schedule(leaf) else leaf,
        hp,
        is_leaf=is_schedule,
    )


def check_schedules(name: str, value: PyTree) -> None:
    """Raise a ValueError for a schedule that is no list of values."""
    for leaf in jax.tree.leaves(value, is_leaf=is_schedule):
        if is_schedule(leaf) and (np.ndim(leaf.values) != 1 or not len(leaf)):
            raise ValueError(
                f"the schedule {name} must be a list with one value per round: got the "
                f"shape {np.shape(leaf.values)}"
            )


def check_length(hp: PyTree, rounds: int) -> None:
    """Raise a ValueError if a schedule ends before round `rounds`."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(hp, is_leaf=is_schedule):
        if is_schedule(leaf) and len(leaf) < rounds:
            name = ".".join(str(getattr(part, "key", part)) for part in path)
            raise TooShortError(
                f"the schedule {name} must have a value for each of {rounds} rounds: "
                f"got {len(leaf)}"
            )


def check_constant(kind: str, hp: Mapping[str, PyTree]) -> None:
    """Raise a ValueError for a schedule of what shapes the data or the model."""
    for name, value in hp.items():
        if isinstance(value, Schedule):
            raise ValueError(
                f"{kind}.{name} must be one number, the same in all rounds: got a "
                f"schedule of {len(value)}"
            )
