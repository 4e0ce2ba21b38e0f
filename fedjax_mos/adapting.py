"""The host's part in a run: when a sampler's state is revised, and how.

What happens before a round depends on the round's number alone, so that a run can be
stopped and continued.
"""

from functools import partial

import jax
import jax.numpy as jnp

from fedjax_mos.types import Adaptation, FederatedData, RoundState, Simulation


def stops(adaptation: Adaptation | None, first: int, rounds: int) -> list[int]:
    """After how many of `rounds` rounds from round `first` on the host has work.

    >>> stops(Adaptation(revise=None, every=2), first=1, rounds=6)
    [1, 3, 5]
    """
    if adaptation is None:
        return []
    return [
        t
        for t in range(1, rounds)
        if due(adaptation, first + t) or first + t == adaptation.warm_up
    ]


def due(adaptation: Adaptation, at: int) -> bool:
    """Whether the host revises the sampler before round `at`."""
    if adaptation.every is None:
        return at == adaptation.warm_up
    return at >= adaptation.warm_up and at % adaptation.every == 0


def simulation_at(adaptation: Adaptation, sim: Simulation, at: int) -> Simulation:
    """Whose step round `at` is."""
    warming = adaptation.warm is not None and at < adaptation.warm_up
    return adaptation.warm if warming else sim  # type: ignore[return-value]


def revised(
    adaptation: Adaptation, data: FederatedData, state: RoundState, lanes: bool
) -> tuple[RoundState, list[int], list[int]]:
    """The state with the sampler that the host finds, and its bits up and down.

    Of several simulations at once each is revised by itself.
    """

    def lane(index: int) -> RoundState:
        return jax.tree.map(lambda leaf: leaf[index], state)

    count = state.round.shape[0] if lanes else 1
    found = [adaptation.revise(data, lane(i) if lanes else state) for i in range(count)]
    samplers = [one.sampler for one in found]
    # Buffers of its own: a block of rounds donates them.
    sampler = (
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *samplers)
        if lanes
        else jax.tree.map(partial(jnp.array, copy=True), samplers[0])
    )
    up, down = [one.bits_up for one in found], [one.bits_down for one in found]
    return state._replace(sampler=sampler), up, down
