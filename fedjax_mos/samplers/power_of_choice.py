"""Power-of-choice: of some candidates those with the largest loss."""

import jax
import jax.numpy as jnp

from fedjax_mos.client.tools import over_all
from fedjax_mos.components import cite
from fedjax_mos.data.store import views
from fedjax_mos.samplers.cohort import check_cohort
from fedjax_mos.samplers.uniform import weighted_subset
from fedjax_mos.types import (
    Batch,
    Cohort,
    Count,
    Key,
    Sampler,
    SamplerTools,
    SamplerView,
)


@cite("cho2022power")
def power_of_choice(
    tools: SamplerTools, *, candidates: Count = 20, micro_batch: Count = 32
) -> Sampler:
    """The M clients of largest local loss at the server's model; weight 1/M each.

    The candidates are drawn without replacement with probabilities p. Biased on
    purpose. Asking the candidates costs a model and a number each, which is not
    counted here.
    """
    cohort = tools.cohort
    check_cohort(cohort)
    if candidates < cohort:
        raise ValueError(
            f"candidates must be at least cohort, {cohort}: got {candidates}"
        )

    def init(view: SamplerView, key: Key) -> tuple:
        check_cohort(cohort, view.data)
        clients = view.data.size.shape[0]
        if candidates > clients:
            raise ValueError(
                f"candidates must be at most the number of clients, {clients}: "
                f"got {candidates}"
            )
        return ()

    def sample(state: tuple, view: SamplerView, key: Key) -> tuple[Cohort, tuple]:
        data = view.data
        k_draw, k_loss = jax.random.split(key)
        ids = weighted_subset(k_draw, data.mass, candidates)

        def measure(batch: Batch, key: Key) -> jax.Array:
            return tools.loss(view.server.params, batch, None)

        def local_loss(client: jax.Array) -> jax.Array:
            asked = views(data, client, view.round)
            return over_all(measure, asked, k_loss, micro_batch)

        worst = jax.lax.top_k(jax.lax.map(local_loss, ids), cohort)[1]
        weights = jnp.full(cohort, 1 / cohort)
        return Cohort(ids[worst], weights, jnp.ones(cohort, bool)), state

    return Sampler(init, sample)
