"""Samplers that draw for several rounds at once: what they may look at."""

import dataclasses
from typing import Any

import jax

from fedjax_mos import tree
from fedjax_mos.types import Cohort, FederatedData, Key, RoundState, Simulation


def check_sampler(
    sim: Simulation, data: FederatedData, state: RoundState, generated: bool
) -> tuple[bool, int]:
    """Whether a sampler looks at the server before it draws, and its slots.

    Raise a ValueError for one that cannot draw for a working set.
    """
    name, clients = sim.specs["sampler"].name, data.size.shape[0]
    needed = "rows on disk and generated clients need a sampler that"
    if sim.host_update is not None:
        raise ValueError(f"{needed} needs no work on the host: {name} does")
    if generated:
        unseen: Any = _Unseen("examples")
        data = dataclasses.replace(data, x=unseen, y=unseen, order=unseen)

    def cohort(server: Any) -> Cohort:
        def draw(state: RoundState) -> Cohort:
            return sim.draw(data, state._replace(server=server), jax.random.key(0))[0]

        return jax.eval_shape(draw, state._replace(server=(), clients=()))

    try:
        looks, drawn = False, cohort(_Unseen("server"))
    except _LookedError:
        looks = True
        try:
            drawn = cohort(state.server)
        except _LookedError:
            message = f"{needed} looks at no client's examples: {name} does"
            raise ValueError(message) from None
    if (slots := drawn.ids.shape[0]) == clients:
        raise ValueError(f"{needed} takes some clients: {name} has {slots:,} slots")
    return looks, slots


class _LookedError(Exception):
    """A sampler has looked at what it was not to see."""


class _Unseen:
    """Something that tells when it is looked at."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> Any:
        raise _LookedError(f"{name} of {self._what}")

    def __getitem__(self, index: Any) -> Any:
        raise _LookedError(f"items of {self._what}")


def all_live(sim: Simulation, data: FederatedData, state: RoundState) -> bool:
    """Whether all slots of every cohort are live.

    A compiler that knows it divides by their number in another way, and so must ours.
    """

    def mask(state: RoundState, key: Key) -> jax.Array:
        return sim.draw(data, state, key)[0].mask

    state, key = tree.tile((state._replace(clients=()), jax.random.key(0)), 1)
    try:  # a mask that depends on what is mapped over is refused
        return bool(jax.jit(jax.vmap(mask, out_axes=None))(state, key).all())
    except ValueError:
        return False
