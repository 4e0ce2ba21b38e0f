"""Multinomial sampling (MD): M independent draws with the clients' shares."""

import jax
import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.samplers.cohort import check_cohort, merge_duplicates
from fedjax_mos.types import Cohort, Key, Sampler, SamplerTools, SamplerView


@cite("li2020fedprox")
def multinomial(tools: SamplerTools) -> Sampler:
    """M draws with replacement, client i with probability p_i; weight 1/M each.

    A client's share is that of its mass, so a draw is the owner of a uniformly drawn
    unit of mass: exact integers, O(M log N).
    """
    cohort = tools.cohort
    check_cohort(cohort)

    def init(view: SamplerView, key: Key) -> jax.Array:
        return jnp.cumsum(view.data.mass)

    def sample(
        ends: jax.Array, view: SamplerView, key: Key
    ) -> tuple[Cohort, jax.Array]:
        unit = jax.random.randint(key, (cohort,), 0, ends[-1])
        ids = jnp.searchsorted(ends, unit, side="right")
        return merge_duplicates(ids, jnp.full(cohort, 1 / cohort)), ends

    return Sampler(init, sample)
