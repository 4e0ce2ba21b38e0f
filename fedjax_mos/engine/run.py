"""Many rounds for people: progress, history, interrupts, work on the host."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.engine import host_updates
from fedjax_mos.engine.checks import typed_key
from fedjax_mos.engine.history import Block, History
from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.engine.rollout import Evaluate, Report, rollout
from fedjax_mos.schedule import check_length
from fedjax_mos.types import FederatedData, Key, PyTree, RoundState, Simulation

if TYPE_CHECKING:
    import pandas as pd


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
    report: Report | None = None,
    progress: bool = True,
) -> "tuple[RoundState, pd.DataFrame]":
    """Train and record: the last state, and one row of history per round.

    `evaluate(state, stores)` fills its columns every `every` rounds and after the last.
    `report(state, info)` gives a dictionary of further columns after every round; an
    array fills a cell. `bits_up`, `bits_down` and `seconds` are cumulative; bits are
    exact integers. `local_NAME` are the means of what clients measure.

    A batch of keys [S] with a state whose leaves have a leading axis S runs S
    simulations as one program, told apart by the column `lane`. An interrupt (Ctrl-C)
    ends the run after the block of rounds under way and returns what is there. What a
    sampler's work on the host costs counts in the round that follows.

    The caller's `state` stays usable.
    """
    from tqdm import tqdm

    if rounds < 1 or every < 1:
        raise ValueError(f"rounds and every must be at least 1: got {rounds}, {every}")
    key = typed_key(key)
    # Blocks donate their state: give them one of their own, every leaf its own buffer.
    state = jax.tree.map(partial(jnp.array, copy=True), state)
    lanes, first = bool(key.shape), int(np.ravel(state.round)[0])
    check_length(state.hp, first + rounds)
    (data, stores), (state, key) = sim.backend.place(
        (data, stores), (state, key), lanes
    )
    history = History(lanes, first)
    update = sim.host_update
    bar = tqdm(total=rounds, unit="round", disable=not progress)
    with bar, deferred_interrupt() as interrupted:
        stops = host_updates.stops(update, first, rounds)
        for length, interval in _blocks(rounds, every, stops):
            measure, at = evaluate if interval else None, first + history.rounds
            now = host_updates.simulation_at(sim, at)
            if update is not None and host_updates.due(update, at):
                state, *bits = host_updates.updated(update, data, state, lanes)
                state = sim.backend.place((), state, lanes)[1]
                history.charge(*bits)
            interval = interval or length
            state, out = _block(
                now, (measure, report), data, stores, state, key, length, interval
            )
            history.add(out, interval)
            bar.update(length)
            bar.set_postfix(history.last)
            if interrupted.is_set():
                bar.write(f"interrupted after round {history.rounds} of {rounds}")
                if measure is None and evaluate is not None:
                    over = jax.vmap(evaluate, (0, None)) if lanes else evaluate
                    history.evaluated(over(state, stores))
                break
    return state, history.frame()


def _advance(
    sim: Simulation,
    functions: tuple[Evaluate | None, Report | None],
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    length: int,
    every: int,
) -> tuple[RoundState, Block]:
    evaluate, report = functions

    def one(read: PyTree, own: PyTree) -> tuple[RoundState, Block]:
        (data, stores), (state, key) = read, own
        given: dict[str, Any] = {"evaluate": evaluate, "stores": stores}
        state, trace = rollout(
            sim, data, state, key, length, every=every, report=report, **given
        )
        info = trace.info  # only what the history keeps leaves the device
        return state, Block(
            info.metrics, info.bits_up, info.bits_down, trace.evaluated, trace.reported
        )

    read, own = (data, stores), (state, key)
    return sim.backend.many(one, read, own) if key.shape else one(read, own)


_compiled = jax.jit(
    _advance,
    static_argnames=("sim", "functions", "length", "every"),
    donate_argnames=("state",),
)


def _block(sim: Simulation, *args: Any) -> tuple[RoundState, Block]:
    if sim.backend.traced:
        return _compiled(sim, *args)
    with jax.disable_jit():  # scans become Python loops
        return _advance(sim, *args)


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
