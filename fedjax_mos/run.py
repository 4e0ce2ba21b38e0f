"""Many rounds: `rollout` for transforms, `run` for people."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos import adapting
from fedjax_mos.history import History
from fedjax_mos.interrupts import patience
from fedjax_mos.types import (
    Adaptation,
    FederatedData,
    Key,
    PyTree,
    RoundInfo,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    import pandas as pd

Evaluate = Callable[[Any, Any], dict[str, jax.Array]]


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
    remat: bool = False,
) -> tuple[RoundState, tuple[RoundInfo, dict[str, jax.Array]]]:
    """`rounds` rounds as one pure function: vmap it, differentiate it, jit it.

    Returns the last state, the info of every round [rounds] and
    `evaluate(params, stores)` after every `every` rounds [rounds / every].
    """
    if rounds % every:
        raise ValueError(f"rounds must be a multiple of every: {rounds} % {every} != 0")
    plain = partial(sim.step, data)
    step: Callable = jax.checkpoint(plain) if remat else plain

    def block(state: RoundState, numbers: jax.Array) -> tuple[RoundState, PyTree]:
        # The key of a round depends on its number alone, so 4 + 2 rounds equal 6.
        keys = jax.vmap(partial(jax.random.fold_in, key))(numbers)
        state, info = jax.lax.scan(step, state, keys)
        # Between scans, not by a cond: that would become a select under vmap.
        values = {} if evaluate is None else evaluate(state.server.params, stores)
        return state, (info, values)

    numbers = state.round + jnp.arange(rounds, dtype=jnp.int32)
    state, (info, values) = jax.lax.scan(block, state, numbers.reshape(-1, every))
    info = jax.tree.map(lambda leaf: leaf.reshape(rounds, *leaf.shape[2:]), info)
    return state, (info, values)


def run(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    rounds: int,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    every: int = 1,
    adaptation: Adaptation | None = None,
    progress: bool = True,
) -> "tuple[RoundState, pd.DataFrame]":
    """Train and record: the last state, and one row of history per round.

    `evaluate(params, stores)` fills its columns every `every` rounds and after the
    last. `bits_up`, `bits_down` and `seconds` are cumulative; bits are exact integers.
    A batch of keys [S] with a state whose leaves have a leading axis S runs S
    simulations as one program, told apart by the column `lane`. An interrupt (Ctrl-C)
    ends the run after the block of rounds under way and returns what is there.
    `adaptation` revises the sampler's state on the host between blocks; what that costs
    counts in the round that follows.

    The caller's `state` stays usable.
    """
    from tqdm import tqdm

    if rounds < 1 or every < 1:
        raise ValueError(f"rounds and every must be at least 1: got {rounds}, {every}")
    if adaptation is not None and adaptation.warm_up and adaptation.warm is None:
        raise ValueError(
            "adaptation.warm must be the simulation of the warm-up rounds: got None"
        )
    # Blocks donate their state: give them one of their own, every leaf its own buffer.
    state = jax.tree.map(partial(jnp.array, copy=True), state)
    lanes, first = bool(key.shape), int(np.ravel(state.round)[0])
    (data, stores), (state, key) = sim.backend.place(
        (data, stores), (state, key), lanes
    )
    history = History(lanes, first)
    bar = tqdm(total=rounds, unit="round", disable=not progress)
    with bar, patience() as interrupted:
        stops = adapting.stops(adaptation, first, rounds)
        for length, interval in _blocks(rounds, every, stops):
            now, measure = sim, evaluate if interval else None
            if adaptation is not None:
                at = first + history.rounds
                now = adapting.simulation_at(adaptation, sim, at)
                if adapting.due(adaptation, at):
                    state, *bits = adapting.revised(adaptation, data, state, lanes)
                    state = sim.backend.place((), state, lanes)[1]
                    history.charge(*bits)
            interval = interval or length
            state, out = _block(
                now, measure, data, stores, state, key, length, interval
            )
            history.add(out, interval)
            bar.update(length)
            bar.set_postfix(history.last)
            if interrupted.is_set():
                bar.write(f"interrupted after round {history.rounds} of {rounds}")
                if measure is None and evaluate is not None:
                    over = jax.vmap(evaluate, (0, None)) if lanes else evaluate
                    history.evaluated(over(state.server.params, stores))
                break
    return state, history.frame()


def _advance(
    sim: Simulation,
    evaluate: Evaluate | None,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    length: int,
    every: int,
) -> tuple[RoundState, PyTree]:
    def one(read: PyTree, own: PyTree) -> tuple[RoundState, PyTree]:
        (data, stores), (state, key) = read, own
        options: dict[str, Any] = {
            "evaluate": evaluate,
            "stores": stores,
            "every": every,
        }
        return rollout(sim, data, state, key, length, **options)

    read, own = (data, stores), (state, key)
    return sim.backend.many(one, read, own) if key.shape else one(read, own)


_compiled = jax.jit(
    _advance,
    static_argnames=("sim", "evaluate", "length", "every"),
    donate_argnames=("state",),
)


def _block(
    sim: Simulation, evaluate: Evaluate | None, *args: Any
) -> tuple[RoundState, PyTree]:
    if sim.backend.traced:
        return _compiled(sim, evaluate, *args)
    with jax.disable_jit():  # scans become Python loops
        return _advance(sim, evaluate, *args)


def _blocks(
    rounds: int, every: int, stops: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """(rounds, evaluation interval) of each visit to the device.

    At most ten rounds a visit (or one interval), all visits equal so that one program
    serves them; what does not fit is a visit of its own. A visit also ends at `stops`,
    where the host has work; one that ends without an evaluation has interval 0.
    """
    out = []
    for start, stop in pairwise([0, *stops, rounds]):
        head = min(-start % every, stop - start)
        whole, tail = divmod(stop - start - head, every)
        most = max(10 // every, 1)
        per_visit = max(d for d in range(1, most + 1) if whole % d == 0)
        if head:
            met = (start + head) % every == 0 or start + head == rounds
            out.append((head, head if met else 0))
        out += [(per_visit * every, every)] * (whole // per_visit)
        if tail:
            out.append((tail, tail if stop == rounds else 0))
    return out
