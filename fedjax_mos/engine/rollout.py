"""Many rounds as one pure function, for transforms."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from typing_extensions import TypeAliasType

from fedjax_mos.engine.checks import typed_key
from fedjax_mos.schedule import check_length
from fedjax_mos.types import (
    FederatedData,
    Key,
    Metrics,
    PyTree,
    RoundInfo,
    RoundState,
    Simulation,
)

# (state, stores) -> metrics
Evaluate = TypeAliasType("Evaluate", Callable[[RoundState, PyTree], Metrics])
# after every round
Report = TypeAliasType("Report", Callable[[RoundState, RoundInfo], PyTree])


class Trace(NamedTuple):
    """What the rounds of a rollout leave besides the last state."""

    info: RoundInfo  # leaves [rounds, ...]
    evaluated: Metrics  # leaves [rounds / every]
    reported: PyTree  # leaves [rounds, ...]


def round_key(key: Key, round: jax.Array) -> Key:
    """The key of a round, by its number alone: so 4 + 2 rounds equal 6."""
    return jax.random.fold_in(key, round)


def rollout(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    rounds: int,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    every: int = 1,
    report: Report | None = None,
    remat: bool = False,
) -> tuple[RoundState, Trace]:
    """`rounds` rounds as one pure function: vmap it, differentiate it, jit it.

    Returns the last state, and of the rounds their info, `evaluate(state, stores)`
    after every `every` of them, and `report(state, info)` after each.
    """
    if rounds % every:
        raise ValueError(f"rounds must be a multiple of every: {rounds} % {every} != 0")
    traced = isinstance(state.round, jax.core.Tracer)
    check_length(state.hp, rounds if traced else int(state.round) + rounds)
    key = typed_key(key)

    def plain(state: RoundState, key: Key) -> tuple[RoundState, PyTree]:
        state, info = sim.step(data, state, key)
        return state, (info, () if report is None else report(state, info))

    step: Callable = jax.checkpoint(plain) if remat else plain

    def block(state: RoundState, numbers: jax.Array) -> tuple[RoundState, PyTree]:
        keys = jax.vmap(partial(round_key, key))(numbers)
        state, out = jax.lax.scan(step, state, keys)
        # Between scans, not by a cond: that would become a select under vmap.
        return state, (out, {} if evaluate is None else evaluate(state, stores))

    numbers = state.round + jnp.arange(rounds, dtype=jnp.int32)
    state, (out, values) = jax.lax.scan(block, state, numbers.reshape(-1, every))
    info, reported = jax.tree.map(lambda x: x.reshape(rounds, *x.shape[2:]), out)
    return state, Trace(info, values, reported)
