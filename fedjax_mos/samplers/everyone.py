"""Full participation."""

import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.types import Cohort, Key, Sampler, SamplerTools, SamplerView


@cite("mcmahan2017fedavg")
def everyone(tools: SamplerTools) -> Sampler:
    """All clients, weighted by their shares p_i: FedAvg with C = 1."""

    def sample(state: tuple, view: SamplerView, key: Key) -> tuple[Cohort, tuple]:
        mass = view.data.mass
        n = mass.shape[0]
        share = mass.astype(float) / mass.sum()
        return Cohort(jnp.arange(n), share, jnp.ones(n, bool)), state

    return Sampler(lambda view, key: (), sample, takes_all=True)
