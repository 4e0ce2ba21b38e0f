"""Dynamic client pools around any sampler."""

import dataclasses
from typing import NamedTuple

import jax
import optax

from fedjax_mos.components import cite
from fedjax_mos.samplers.cohort import check_cohort, subset
from fedjax_mos.types import Cohort, Key, Sampler, SamplerState, SamplerView


class State(NamedTuple):
    present: jax.Array  # [pool] ids of the candidates
    inner: SamplerState


@cite("kim2024fedacg")
def pools(inner: Sampler, pool: int, every: int) -> Sampler:
    """`inner` on a candidate set of `pool` clients, redrawn every `every` rounds.

    The state of absent clients rests. Shares are those within the pool. Figure F of the
    supplement of FedACG.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1: got {every}")

    def init(view: SamplerView, key: Key) -> State:
        check_cohort(pool, view.data)
        k_pool, k_inner = jax.random.split(key)
        return drawn(view, k_pool, k_inner)

    def drawn(view: SamplerView, k_pool: Key, k_inner: Key) -> State:
        present = subset(k_pool, view.data.size.shape[0], pool)
        return State(present, inner.init(_restricted(view, present), k_inner))

    def sample(state: State, view: SamplerView, key: Key) -> tuple[Cohort, State]:
        k_pool, k_inner, k_sample = jax.random.split(key, 3)
        change = (view.round % every == 0) & (view.round > 0)
        present, kept = optax.tree.where(change, drawn(view, k_pool, k_inner), state)
        cohort, after = inner.sample(kept, _restricted(view, present), k_sample)
        chosen = Cohort(present[cohort.ids], cohort.weights, cohort.mask)
        return chosen, State(present, after)

    return Sampler(init, sample)


def _restricted(view: SamplerView, present: jax.Array) -> SamplerView:
    """The same store with only the clients `present`."""
    data = view.data
    mass = data.given_mass
    few = dataclasses.replace(
        data,
        offset=data.offset[present],
        size=data.size[present],
        given_mass=None if mass is None else mass[present],
    )
    return view._replace(data=few)
