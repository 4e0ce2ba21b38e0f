"""Dynamic client pools around any sampler."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.samplers.cohort import check_cohort, subset
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler


class State(NamedTuple):
    round: jax.Array
    present: jax.Array  # [pool] ids of the candidates
    inner: Any


def pools(inner: Sampler, pool: int, every: int) -> Sampler:
    """`inner` on a candidate set of `pool` clients, redrawn every `every` rounds.

    The state of absent clients rests. Shares are those within the pool.

    Reference: Kim et al., "Communication-Efficient Federated Learning with Accelerated
    Client Gradient", CVPR 2024 (Figure F of the supplement).
    """
    if every < 1:
        raise ValueError(f"every must be at least 1: got {every}")

    def init(data: FederatedData, key: Key) -> State:
        check_cohort(pool, data)
        k_pool, k_inner = jax.random.split(key)
        present = subset(k_pool, data.size.shape[0], pool)
        first = inner.init(_restricted(data, present), k_inner)
        return State(jnp.zeros((), jnp.int32), present, first)

    def sample(
        state: State, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, State]:
        k_pool, k_inner, k_sample = jax.random.split(key, 3)

        def redraw() -> tuple[jax.Array, Any]:
            present = subset(k_pool, data.size.shape[0], pool)
            return present, inner.init(_restricted(data, present), k_inner)

        change = (state.round % every == 0) & (state.round > 0)
        present, kept = optax.tree.where(change, redraw(), (state.present, state.inner))
        cohort, after = inner.sample(kept, k_sample, params, _restricted(data, present))
        chosen = Cohort(present[cohort.ids], cohort.weights, cohort.mask)
        return chosen, State(state.round + 1, present, after)

    return Sampler(init, sample)


def _restricted(data: FederatedData, present: jax.Array) -> FederatedData:
    """The same store with only the clients `present`."""
    return dataclasses.replace(
        data, offset=data.offset[present], size=data.size[present]
    )
