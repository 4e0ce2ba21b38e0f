"""The host's part in a run: when a sampler's state is replaced, and how.

What happens before a round depends on the round's number alone, so that a run can be
stopped and continued.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import (
    FederatedData,
    HostUpdate,
    Key,
    PyTree,
    RoundState,
    Simulation,
)

_EXTRA = 0x45  # folded into the key of rounds that do not count


def next_stop(update: HostUpdate | None, after: int, last: int) -> int:
    """The first round in (after, last) before which the host has work, or `last`.

    >>> next_stop(HostUpdate(compute=None, every=2), after=2, last=7)
    4
    """
    if update is None:
        return last
    between = range(after + 1, last)
    return next((t for t in between if due(update, t) or t == update.warm_up), last)


def due(update: HostUpdate, at: int) -> bool:
    """Whether the host replaces the sampler's state before round `at`."""
    if update.every is None:
        return at == update.warm_up
    return at >= update.warm_up and at % update.every == 0


def simulation_at(sim: Simulation, at: int) -> Simulation:
    """Whose step round `at` is."""
    if sim.host_update is None or sim.warm_up is None:
        return sim
    return sim.warm_up if at < sim.host_update.warm_up else sim


def updated(
    update: HostUpdate, data: FederatedData, state: RoundState, lanes: bool
) -> tuple[RoundState, list[int], list[int]]:
    """The state with the sampler that the host finds, and its bits up and down.

    Of several simulations at once each is updated by itself.
    """

    def lane(index: int) -> RoundState:
        return jax.tree.map(lambda leaf: leaf[index], state)

    count = state.round.shape[0] if lanes else 1
    found = [update.compute(data, lane(i) if lanes else state) for i in range(count)]
    up, down = [one.bits_up for one in found], [one.bits_down for one in found]

    def own(trees: list[PyTree]) -> PyTree:
        """With buffers of its own: a block of rounds donates them."""
        if lanes:
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
        return jax.tree.map(partial(jnp.array, copy=True), trees[0])

    if found[0].state is not None:
        state = own([one.state for one in found])
    return state._replace(sampler=own([one.sampler for one in found])), up, down


def extra_rounds(
    warm: Simulation, data: FederatedData, state: RoundState, key: Key, rounds: int
) -> tuple[RoundState, int, int]:
    """The state after rounds that count as none, and their bits up and down.

    With keys of their own: the rounds that count draw other batches.
    """
    key = jax.random.fold_in(key, _EXTRA)
    step = jax.jit(warm.step) if warm.backend.traced else warm.step
    before, up, down = state, 0, 0
    for t in range(rounds):
        state, info = step(data, state, jax.random.fold_in(key, t))
        up += int(np.sum(np.asarray(info.bits_up, np.int64)))
        down += int(np.sum(np.asarray(info.bits_down, np.int64)))
    return state._replace(round=before.round, sampler=before.sampler), up, down
