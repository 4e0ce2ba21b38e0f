"""LAG's server rule: contact only workers whose gradient may have changed."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler, Scalar


class State(NamedTuple):
    round: jax.Array
    previous: Params  # x^{t-1}
    at_upload: Params  # [N, ...] x^_m, the model at each worker's last upload
    moves: jax.Array  # [R] squared lengths of the last moves, latest first


def lag_contact(
    params: Params, *, lr: Scalar, smoothness: Scalar, horizon: int = 10
) -> Sampler:
    """All workers but those with L^2 |x^_m - x|^2 <= the threshold of `algorithms.lag`.

    `params` gives the model's shapes; `lr` must be the algorithm's; `smoothness` is L,
    one number (all workers are then contacted or none) or, if the sampler is handed
    over as it is and not as a Spec, an array [N]. One tree per client, kept by the
    server.

    Reference: Chen et al., "LAG: Lazily Aggregated Gradient for Communication-Efficient
    Distributed Learning", NeurIPS 2018 (LAG-PS).
    """

    def init(data: FederatedData, key: Key) -> State:
        zeros = optax.tree.zeros_like(params)
        dtype = tree.float_dtype(params)
        at_upload = tree.tile(zeros, data.size.shape[0])
        return State(
            jnp.zeros((), jnp.int32), zeros, at_upload, jnp.zeros(horizon, dtype)
        )

    def sample(
        state: State, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, State]:
        n = data.size.shape[0]
        step = optax.tree.sub(params, state.previous)
        latest = jnp.where(state.round > 0, optax.tree.vdot(step, step), 0)[None]
        moves = jnp.concatenate([latest, state.moves[:-1]])
        threshold = moves.mean() / (lr * n) ** 2

        def moved(model: Params) -> jax.Array:
            away = optax.tree.sub(model, params)
            return optax.tree.vdot(away, away)

        contact = smoothness**2 * jax.vmap(moved)(state.at_upload) > threshold
        contact = contact | (state.round == 0)
        at_upload = jax.tree.map(
            lambda old, x: jnp.where(
                contact.reshape(-1, *[1] * x.ndim), jnp.broadcast_to(x, old.shape), old
            ),
            state.at_upload,
            params,
        )
        cohort = Cohort(jnp.arange(n), jnp.full(n, 1 / n), contact)
        return cohort, State(state.round + 1, params, at_upload, moves)

    return Sampler(init, sample)
