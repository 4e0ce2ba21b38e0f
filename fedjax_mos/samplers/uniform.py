"""Uniform sampling without replacement (UCS)."""

from typing import Literal

import jax
import jax.numpy as jnp

from fedjax_mos.samplers.cohort import check_cohort
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler


def uniform(cohort: int, weights: Literal["eq28", "mean", "share"] = "eq28") -> Sampler:
    """`cohort` distinct clients, every set equally likely.

    Weights of client i, with p_i its share of the examples:

        "eq28"   N p_i / M      unbiased, E[w_i] = p_i, but they do not sum to 1
        "mean"   1 / M          the plain mean
        "share"  p_i / sum_S p  normalised over the cohort, biased

    Reference: Wang et al., "FedMoS: Taming Client Drift in Federated Learning with
    Double Momentum and Adaptive Selection", INFOCOM 2023, Eq. (28).
    """
    check_cohort(cohort)
    if weights not in ("eq28", "mean", "share"):
        raise ValueError(f"weights must be 'eq28', 'mean' or 'share': got {weights!r}")

    def init(data: FederatedData, key: Key) -> tuple:
        check_cohort(cohort, data)
        return ()

    def sample(
        state: tuple, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, tuple]:
        n = data.size.shape[0]
        ids = jax.random.permutation(key, n)[:cohort]
        share = data.size[ids] / data.order.shape[0]
        w = {
            "eq28": n * share / cohort,
            "mean": jnp.full_like(share, 1 / cohort),
            "share": share / share.sum(),
        }[weights]
        return Cohort(ids, w, jnp.ones(cohort, bool)), state

    return Sampler(init, sample)
