"""Independent activation: every client takes part with the same probability."""

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from fedjax_mos.samplers.cohort import check_choice, check_cohort, subset
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler


def bernoulli(cohort: int, weights: Literal["mean", "share"] = "mean") -> Sampler:
    """Each client independently with probability M / N, never nobody.

    The number of active clients is drawn from the binomial distribution conditioned on
    being positive (what redrawing an empty cohort gives), by its inverse, then a set of
    that size uniformly: O(N). Weights are 1 / |S| ("mean") or p_i / sum_S p ("share").
    There are slots for the mean plus six standard deviations and six more; the chance
    of needing others is below 1e-9, and they are cut off.

    Reference: Xu et al., "FedCM: Federated Learning with Client-level Momentum", 2021.
    """
    check_cohort(cohort)
    check_choice("weights", weights, ("mean", "share"))

    def init(data: FederatedData, key: Key) -> tuple:
        check_cohort(cohort, data)
        return ()

    def sample(
        state: tuple, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, tuple]:
        n = data.size.shape[0]
        slots = min(n, math.ceil(cohort + 6 * math.sqrt(cohort) + 6))
        k_size, k_who = jax.random.split(key)
        if cohort == n:
            active = jnp.asarray(n)
        else:
            sizes = jnp.asarray(_log_binomial(n, cohort / n, slots))
            active = 1 + jax.random.categorical(k_size, sizes)
        ids = subset(k_who, n, slots)
        live = jnp.arange(slots) < active
        mass = data.size[ids] if weights == "share" else jnp.ones(slots)
        w = jnp.where(live, mass, 0)
        return Cohort(ids, w / w.sum(), live), state

    return Sampler(init, sample)


def _log_binomial(n: int, rate: float, largest: int) -> np.ndarray:
    """log P(k of n) for k = 1..largest, up to a constant; on the host, in float64."""
    k = np.arange(1, largest + 1)
    out = -gammaln(k + 1) - gammaln(n - k + 1) + k * (np.log(rate) - np.log1p(-rate))
    return (out - out.max()).astype(np.float32)
