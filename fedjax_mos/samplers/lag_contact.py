"""LAG's server rule: contact only workers whose gradient may have changed.

Chen et al., NeurIPS 2018 [chen2018lag], LAG-PS. Worker m rests while

    L_m^2 |x^_m - x|^2 <= the threshold that `algorithms.lag` keeps

with x^_m the model at its last upload and L_m its smoothness.
"""

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.components import cite
from fedjax_mos.types import (
    Cohort,
    Key,
    NonNegative,
    Params,
    Sampler,
    SamplerTools,
    SamplerView,
)


@cite("chen2018lag")
def lag_contact(tools: SamplerTools, *, smoothness: NonNegative = 1.0) -> Sampler:
    """All workers but those whose model has hardly moved since their last upload.

    `smoothness` is L, one number (all workers are then contacted or none) or an array
    [N]. One tree per client, kept by the server: x^_m.
    """

    def init(view: SamplerView, key: Key) -> Params:
        if not hasattr(view.server, "threshold"):
            raise ValueError(
                "the algorithm must be one with a threshold in its server state, as "
                f"lag has, for lag_contact: got {type(view.server).__name__} without it"
            )
        zeros = optax.tree.zeros_like(view.server.params)
        return tree.tile(zeros, view.data.size.shape[0])

    def sample(at_upload: Params, view: SamplerView, key: Key) -> tuple[Cohort, Params]:
        x, n = view.server.params, view.data.size.shape[0]

        def moved(model: Params) -> jax.Array:
            away = optax.tree.sub(model, x)
            return optax.tree.vdot(away, away)

        far = smoothness**2 * jax.vmap(moved)(at_upload) > view.server.threshold
        contact = far | (view.round == 0)
        at_upload = jax.tree.map(
            lambda old, new: jnp.where(
                contact.reshape(-1, *[1] * new.ndim),
                jnp.broadcast_to(new, old.shape),
                old,
            ),
            at_upload,
            x,
        )
        return Cohort(jnp.arange(n), jnp.full(n, 1 / n), contact), at_upload

    return Sampler(init, sample, takes_all=True)
