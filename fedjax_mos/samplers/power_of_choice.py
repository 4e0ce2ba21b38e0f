"""Power-of-choice: of some candidates those with the largest loss."""

import jax
import jax.numpy as jnp

from fedjax_mos.data.federated import views
from fedjax_mos.local import over_all
from fedjax_mos.samplers.cohort import check_cohort
from fedjax_mos.samplers.uniform import weighted_subset
from fedjax_mos.types import Batch, Cohort, FederatedData, Key, Loss, Params, Sampler


def power_of_choice(
    cohort: int, loss: Loss, candidates: int = 20, micro_batch: int = 32
) -> Sampler:
    """The `cohort` clients of largest local loss at the server's model; weight 1/M.

    The candidates are drawn without replacement with probabilities p. Biased on
    purpose. Asking the candidates costs a model and a number each, which is not
    counted here.

    Reference: Cho et al., "Towards Understanding Biased Client Selection in Federated
    Learning", AISTATS 2022.
    """
    check_cohort(cohort)
    if candidates < cohort:
        raise ValueError(
            f"candidates must be at least cohort, {cohort}: got {candidates}"
        )

    def init(data: FederatedData, key: Key) -> tuple:
        check_cohort(cohort, data)
        return ()

    def sample(
        state: tuple, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, tuple]:
        k_draw, k_loss = jax.random.split(key)
        drawn = min(candidates, data.size.shape[0])
        ids = weighted_subset(k_draw, data.size, drawn)

        def local_loss(client: jax.Array) -> jax.Array:
            def measure(batch: Batch, key: Key) -> jax.Array:
                return loss(params, batch, key)

            k_client = jax.random.fold_in(k_loss, client)
            return over_all(measure, views(data, client), k_client, micro_batch)

        worst = jax.lax.top_k(jax.lax.map(local_loss, ids), cohort)[1]
        weights = jnp.full(cohort, 1 / cohort)
        return Cohort(ids[worst], weights, jnp.ones(cohort, bool)), state

    return Sampler(init, sample)
