"""Uniform sampling without replacement (UCS), and the FedMoS release's version."""

from typing import Literal

import jax
import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.samplers.cohort import check_choice, check_cohort, subset
from fedjax_mos.types import Cohort, Key, Sampler, SamplerTools, SamplerView


@cite("wang2023fedmos")
def uniform(
    tools: SamplerTools, *, weights: Literal["eq28", "mean", "share"] = "eq28"
) -> Sampler:
    """M distinct clients, every set equally likely.

    Weights of client i, with p_i its share:

        "eq28"   N p_i / M      unbiased, E[w_i] = p_i, but they do not sum to 1;
                                Eq. (28) of FedMoS
        "mean"   1 / M          the plain mean
        "share"  p_i / sum_S p  normalised over the cohort, biased
    """
    cohort = tools.cohort
    check_cohort(cohort)
    check_choice("weights", weights, ("eq28", "mean", "share"))

    def init(view: SamplerView, key: Key) -> jax.Array:
        check_cohort(cohort, view.data)
        return view.data.mass.sum()

    def sample(
        total: jax.Array, view: SamplerView, key: Key
    ) -> tuple[Cohort, jax.Array]:
        mass = view.data.mass
        n = mass.shape[0]
        ids = subset(key, n, cohort)
        share = mass[ids].astype(float) / total
        w = {
            "eq28": n * share / cohort,
            "mean": jnp.full_like(share, 1 / cohort),
            "share": share / share.sum(),
        }[weights]
        return Cohort(ids, w, jnp.ones(cohort, bool)), total

    return Sampler(init, sample)


@cite("wang2023fedmos")
def uniform_release(tools: SamplerTools) -> Sampler:
    """What the FedMoS release calls uniform: biased twice towards large clients.

    Clients are drawn without replacement with probabilities p, and the weights
    N p_i / M are normalised to sum 1. O(N).
    """
    cohort = tools.cohort
    check_cohort(cohort)

    def init(view: SamplerView, key: Key) -> tuple:
        check_cohort(cohort, view.data)
        return ()

    def sample(state: tuple, view: SamplerView, key: Key) -> tuple[Cohort, tuple]:
        ids = weighted_subset(key, view.data.mass, cohort)
        mass = view.data.mass[ids].astype(float)
        return Cohort(ids, mass / mass.sum(), jnp.ones(cohort, bool)), state

    return Sampler(init, sample)


def weighted_subset(key: Key, masses: jax.Array, count: int) -> jax.Array:
    """`count` distinct clients, drawn one after another with probabilities ~ masses."""
    # Gumbel top-k is successive sampling without replacement.
    return jax.lax.top_k(jnp.log(masses) + jax.random.gumbel(key, masses.shape), count)[
        1
    ]
