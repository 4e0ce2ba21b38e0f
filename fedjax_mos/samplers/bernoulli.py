"""Independent activation: every client takes part with the same probability.

Xu et al., 2021 [xu2021fedcm].
"""

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.components import cite
from fedjax_mos.samplers.cohort import check_choice, check_cohort, subset
from fedjax_mos.types import Cohort, Key, Sampler, SamplerTools, SamplerView


@cite("xu2021fedcm")
def bernoulli(
    tools: SamplerTools, *, weights: Literal["mean", "share"] = "mean"
) -> Sampler:
    """Each client independently with probability M / N, never nobody.

    The number of active clients is drawn from the binomial distribution conditioned on
    being positive (what redrawing an empty cohort gives), by its inverse, then a set of
    that size uniformly: O(N). Weights are 1 / |S| ("mean") or p_i / sum_S p ("share").
    There are slots for the mean plus six standard deviations and six more; the chance
    of needing others is below 1e-9, and they are cut off.
    """
    cohort = tools.cohort
    check_cohort(cohort)
    check_choice("weights", weights, ("mean", "share"))

    def init(view: SamplerView, key: Key) -> tuple:
        check_cohort(cohort, view.data)
        return ()

    def sample(state: tuple, view: SamplerView, key: Key) -> tuple[Cohort, tuple]:
        mass = view.data.mass
        n = mass.shape[0]
        slots = _slots(n, cohort)
        k_size, k_who = jax.random.split(key)
        if cohort == n:
            active = jnp.asarray(n)
        else:
            sizes = jnp.asarray(_log_binomial(n, cohort / n, slots))
            active = 1 + jax.random.categorical(k_size, sizes)
        ids = subset(k_who, n, slots)
        live = jnp.arange(slots) < active
        counts = mass[ids] if weights == "share" else jnp.ones(slots)
        w = jnp.where(live, counts, 0)
        return Cohort(ids, w / w.sum(), live), state

    return Sampler(init, sample)


def size_distribution(n: int, cohort: int) -> dict[int, float]:
    """Number of active clients -> its probability."""
    if cohort == n:
        return {n: 1.0}
    chance = np.exp(_log_binomial(n, cohort / n, _slots(n, cohort)).astype(float))
    return dict(enumerate((chance / chance.sum()).tolist(), 1))


def _slots(n: int, cohort: int) -> int:
    return min(n, math.ceil(cohort + 6 * math.sqrt(cohort) + 6))


def _log_binomial(n: int, rate: float, largest: int) -> np.ndarray:
    """log P(k of n) for k = 1..largest, up to a constant; on the host, in float64."""
    from scipy.special import gammaln  # not at the top: it takes long to import

    k = np.arange(1, largest + 1)
    out = -gammaln(k + 1) - gammaln(n - k + 1) + k * (np.log(rate) - np.log1p(-rate))
    return (out - out.max()).astype(np.float32)
