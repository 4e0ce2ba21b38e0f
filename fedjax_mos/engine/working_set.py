"""Rounds on populations that memory does not hold: the working set of each block.

Who takes part in the rounds of a block is drawn first. The rows of these clients are
read from the row store, their examples are made where the population is generated, and
the block runs on them as on any other: a sampler repeats what was drawn and says where
the rows lie. Then the rows go back.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos import tree
from fedjax_mos.data.generated import Generated
from fedjax_mos.engine.ahead import all_live, check_sampler
from fedjax_mos.engine.block import MOST, Block, advance
from fedjax_mos.engine.rollout import Evaluate, Report, round_key
from fedjax_mos.engine.row_store import RowStore
from fedjax_mos.latest import Latest
from fedjax_mos.processes import several
from fedjax_mos.types import (
    Cohort,
    FederatedData,
    Key,
    PyTree,
    RoundState,
    Sampler,
    SamplerState,
    SamplerView,
    Simulation,
)

_BYTES = 2**27  # of the rows of a working set, unless one round needs more


class Drawn(NamedTuple):
    """The state of a sampler that repeats what another one drew."""

    first: jax.Array  # the round of the first cohort
    cohorts: Cohort  # leaves [MOST, ...]


class Functions(NamedTuple):
    """What the working sets of a simulation share."""

    sim: Simulation  # whose sampler repeats
    ahead: Callable[..., tuple[Cohort, SamplerState]]  # (data, state, key, count)


_FUNCTIONS: Latest[Functions] = Latest(most=16)


class WorkingSet:
    """Makes the working set of every block of a run; `run` takes it.

    Either `rows` on disk (the state has `rows.begin(N)` for its clients), or the
    `examples` of a generated population, or both.
    """

    def __init__(
        self,
        sim: Simulation,
        data: FederatedData,
        state: RoundState,
        rows: RowStore | None = None,
        examples: Generated | None = None,
    ) -> None:
        if state.round.ndim and rows is not None:
            raise ValueError(
                "rows on disk take one simulation at a time: run seeds and "
                "configurations one after another, without seeds"
            )
        if several() and rows is not None:
            raise ValueError("rows on disk take one process: run without --distributed")
        self._rows, self._examples = rows, examples
        self.failed: OSError | None = None  # why rows could not be kept
        one = state._replace(clients=())
        one = tree.gather(one, 0) if state.round.ndim else one
        looks, slots = check_sampler(sim, data, one, examples is not None)
        self._functions = _FUNCTIONS.get(
            sim, lambda: _functions(sim, all_live(sim, data, one))
        )
        # The most in a visit to the device.
        each = slots * (0 if rows is None else rows.row_bytes)
        self.rounds = rounds_at_once(looks, each)
        lanes = state.round.size
        self.width = min(data.size.shape[0], lanes * self.rounds * slots)

    def advance(
        self,
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
        """What `engine.block.advance` does, on the working set of the block."""
        known, rows, versions = state._replace(clients=()), self._rows, state.clients
        cohorts, sampler = self._functions.ahead(data, known, key, np.int32(count))
        asked, live = np.array(cohorts.ids), np.array(cohorts.mask)
        ids = np.unique(asked[..., :count, :])  # [lanes, rounds, slots]
        places = np.zeros(cohorts.ids.shape, np.int32)
        if rows is not None:
            places[:count] = np.searchsorted(ids, asked[:count])
            cohorts = cohorts._replace(places=jnp.asarray(places))
        made: PyTree = ()  # the data that the block needs beside those that are placed
        if self._examples is not None:
            made = self._examples.of(data, ids, self.width)
        inner = state._replace(
            clients=versions if rows is None else rows.read(versions, ids, self.width),
            sampler=Drawn(jnp.array(state.round), cohorts),
        )
        made, inner = sim.backend.place(made, inner, bool(key.shape))
        after, out = advance(
            self._functions.sim,
            evaluate,
            report,
            made or data,
            stores,
            inner,
            key,
            count,
            evaluated,
        )
        clients = after.clients
        if rows is not None:
            changed = np.unique(places[:count][live[:count]])
            try:
                clients = rows.write(versions, ids[changed], clients, changed)
            except OSError as error:  # the rounds are run: what follows cannot be
                self.failed, clients = error, versions
        return after._replace(clients=clients, sampler=sampler), out

    def flush(self) -> bool:
        """Before a checkpoint is written; whether it may be."""
        try:
            if self._rows is not None:
                self._rows.flush()
        except OSError as error:
            self.failed = error
        return self.failed is None

    def saved(self, state: RoundState) -> RoundState:
        """What to go on with, after it was."""
        if self._rows is None:
            return state
        return state._replace(clients=self._rows.saved(state.clients))


def rounds_at_once(looks: bool, each: int) -> int:
    """Rounds of a working set: one where the sampler `looks`, else as many as fit.

    >>> rounds_at_once(False, 2**26), rounds_at_once(False, 0), rounds_at_once(True, 0)
    (2, 10, 1)
    """
    return 1 if looks else max(1, min(MOST, _BYTES // max(each, 1)))


def _functions(sim: Simulation, all_live: bool) -> Functions:
    def repeat(state: Drawn, view: SamplerView, key: Key) -> tuple[Cohort, Drawn]:
        cohort = tree.gather(state.cohorts, view.round - state.first)
        if all_live:
            cohort = cohort._replace(mask=jnp.ones(cohort.ids.shape, bool))
        return cohort, state

    assert sim.under is not None
    working = sim.under(Sampler(lambda view, key: (), repeat))
    if sim.identity is not None:
        known = f"the working sets of {sim.identity}"
        working = dataclasses.replace(working, identity=known)

    def ahead(
        data: FederatedData, state: RoundState, key: Key, count: jax.Array
    ) -> tuple[Cohort, SamplerState]:
        """The cohorts of the next `count` rounds [MOST], and the sampler after them."""

        def draw(state: RoundState) -> tuple[Cohort, SamplerState]:
            return sim.draw(data, state, round_key(key, state.round))

        def body(i: jax.Array, carry: tuple) -> tuple[RoundState, Cohort]:
            state, cohorts = carry
            cohort, sampler = draw(state)
            cohorts = jax.tree.map(lambda all, new: all.at[i].set(new), cohorts, cohort)
            return state._replace(round=state.round + 1, sampler=sampler), cohorts

        one = jax.eval_shape(draw, state)[0]
        cohorts = jax.tree.map(lambda c: jnp.zeros((MOST, *c.shape), c.dtype), one)
        after, cohorts = jax.lax.fori_loop(0, count, body, (state, cohorts))
        return cohorts, after.sampler

    @jax.jit
    def lanes(
        data: FederatedData, state: RoundState, key: Key, count: jax.Array
    ) -> tuple[Cohort, SamplerState]:
        each = jax.vmap(ahead, (None, 0, 0, None)) if key.shape else ahead
        return each(data, state, key, count)

    return Functions(working, lanes)
