"""A block of rounds on the device: one program, however many rounds it is to do.

The number of rounds and the rounds to evaluate after are arguments of the program, not
part of it, so that a run compiles its round and its evaluation once each, whatever its
length, its interval between evaluations and the places where the host has work.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_mos.engine.rollout import Evaluate, Report, round_key
from fedjax_mos.latest import Latest
from fedjax_mos.machine import compiler_options
from fedjax_mos.programs import Program
from fedjax_mos.types import FederatedData, Key, Metrics, PyTree, RoundState, Simulation

MOST = 10  # rounds in a block
_PROGRAMS: Latest[Program] = Latest(most=16)


class Block(NamedTuple):
    """What a block sends to the host: leaves [MOST, ...], in a lane each if lanes.

    Rows behind the last round, and of rounds that were not evaluated, are zeros.
    """

    metrics: Metrics
    bits_up: jax.Array  # [rounds, M]
    bits_down: jax.Array
    evaluated: Metrics
    reported: PyTree  # () or a dictionary
    finite: jax.Array  # [rounds] whether all parameters of the server's model are


def advance(
    sim: Simulation,
    evaluate: Evaluate | None,
    report: Report | None,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    count: int,
    evaluated: np.ndarray,
) -> tuple[RoundState, Block]:
    """`count` rounds, of which those that `evaluated` [MOST] marks are evaluated.

    The caller's `state` is used up.
    """
    if not sim.backend.traced:
        with jax.disable_jit():
            rows = []
            for i in range(count):
                flag = bool(evaluated[i])
                state, row = _round(
                    sim, evaluate, report, data, stores, state, key, flag
                )
                rows.append(row)
        return state, jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    run = _program_of(sim, evaluate, report)
    return run(data, stores, np.int32(count), evaluated, state, key)


def is_compiled(
    sim: Simulation,
    evaluate: Evaluate | None,
    report: Report | None,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
) -> bool:
    """Whether such a block was run before, by this process or (kept on disk) another.

    In this process it may have been one of other shapes.
    """
    if not sim.backend.traced or (sim, evaluate, report) in _PROGRAMS:
        return True
    run = _program_of(sim, evaluate, report)
    return run.is_kept(data, stores, np.int32(0), np.zeros(MOST, bool), state, key)


def block_of(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    report: Report | None = None,
) -> tuple[Callable[..., tuple[RoundState, Block]], tuple]:
    """The block as a jitted function, and the arguments of one of `MOST` rounds.

    Data, state and key may be shapes: it is there to be traced, exported or compiled,
    for a platform that this process need not have.
    """
    rounds = np.int32(MOST), np.ones(MOST, bool)
    return _jitted(sim, evaluate, report), (data, stores, *rounds, state, key)


def _program_of(
    sim: Simulation, evaluate: Evaluate | None, report: Report | None
) -> Program:
    """The block of a simulation, kept in this process and, if it can be, on disk."""
    what = (sim, evaluate, report)

    def make() -> Program:
        made_from = [getattr(f, "identity", None) for f in what if f is not None]
        known = None not in made_from
        return Program(_jitted(*what), repr(made_from) if known else None)

    return _PROGRAMS.get(what, make)


def _jitted(
    sim: Simulation, evaluate: Evaluate | None, report: Report | None
) -> Callable[..., tuple[RoundState, Block]]:
    """The block of a simulation as one jitted function."""

    def one(read: PyTree, own: PyTree) -> tuple[RoundState, Block]:
        (data, stores, count, evaluated), (state, key) = read, own
        # Traced once: for its shapes and for the loop.
        step = jax.jit(partial(_round, sim, evaluate, report), inline=True)

        def body(i: jax.Array, carry: tuple) -> tuple[RoundState, Block]:
            state, rows = carry
            state, row = step(data, stores, state, key, evaluated[i])
            return state, jax.tree.map(lambda all, new: all.at[i].set(new), rows, row)

        row = jax.eval_shape(step, data, stores, state, key, evaluated[0])[1]
        rows = jax.tree.map(lambda r: jnp.zeros((MOST, *r.shape), r.dtype), row)
        return jax.lax.fori_loop(0, count, body, (state, rows))

    def block(
        data: FederatedData,
        stores: PyTree,
        count: jax.Array,
        evaluated: jax.Array,
        state: RoundState,
        key: Key,
    ) -> tuple[RoundState, Block]:
        read, own = (data, stores, count, evaluated), (state, key)
        return sim.backend.many(one, read, own) if key.shape else one(read, own)

    return jax.jit(
        block,
        donate_argnames=("state",),
        compiler_options=compiler_options(sim.platform),
    )


def _round(
    sim: Simulation,
    evaluate: Evaluate | None,
    report: Report | None,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    evaluated: jax.Array | bool,
) -> tuple[RoundState, Block]:
    state, info = sim.step(data, state, round_key(key, state.round))
    values: Metrics = {}
    if evaluate is not None:
        measure = jax.jit(partial(evaluate), inline=True)
        zeros = optax.tree.zeros_like(jax.eval_shape(measure, state, stores))
        # A real branch, also where lanes are vmapped: it does not depend on the lane.
        values = jax.lax.cond(evaluated, lambda: measure(state, stores), lambda: zeros)
    reported = () if report is None else report(state, info)
    leaves = jax.tree.leaves(state.server.params)
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    out = Block(info.metrics, info.bits_up, info.bits_down, values, reported, finite)
    return state, out
