"""Full participation."""

import jax.numpy as jnp

from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler


def everyone() -> Sampler:
    """All clients, weighted by their shares p_i of the examples.

    Reference: McMahan et al., AISTATS 2017, with C = 1.
    """

    def sample(
        state: tuple, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, tuple]:
        n = data.size.shape[0]
        share = data.size.astype(float) / data.size.sum()
        return Cohort(jnp.arange(n), share, jnp.ones(n, bool)), state

    return Sampler(lambda data, key: (), sample)
