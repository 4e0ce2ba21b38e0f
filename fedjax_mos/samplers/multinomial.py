"""Multinomial sampling (MD): M independent draws with the data shares."""

import jax
import jax.numpy as jnp

from fedjax_mos.samplers.cohort import check_cohort, merge_duplicates
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler


def multinomial(cohort: int) -> Sampler:
    """`cohort` draws with replacement, client i with probability p_i; weight 1/M each.

    A client's share is the share of examples it owns, so a draw is the owner of a
    uniformly drawn example: exact integers, O(M log N).

    Reference: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys
    2020.
    """
    check_cohort(cohort)

    def init(data: FederatedData, key: Key) -> jax.Array:
        return jnp.cumsum(data.size)

    def sample(
        ends: jax.Array, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, jax.Array]:
        example = jax.random.randint(key, (cohort,), 0, ends[-1])
        ids = jnp.searchsorted(ends, example, side="right")
        return merge_duplicates(ids, jnp.full(cohort, 1 / cohort)), ends

    return Sampler(init, sample)
