"""The training loss as it is while training: dropout on, minibatch by minibatch.

sum_i p_i (mean over client i's minibatches of their mean losses), where a short last
minibatch counts as much as a full one. The program of Wang et al., INFOCOM 2023, has
this loss in its curves and targets.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from fedjax_mos.data.store import take, views
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.types import (
    Backend,
    ClientView,
    FederatedData,
    Key,
    Loss,
    Metrics,
    Params,
    RoundState,
)

COLUMN = "train_dropout_loss"
_KEY = 0xD0  # of its dropout, apart from all keys of a run
_EXAMPLES = 4096  # at a time


def with_dropout_loss(
    evaluate: Evaluate, loss: Loss, batch_size: int, backend: Backend
) -> Evaluate:
    """`evaluate` with the column `train_dropout_loss`; a draw depends on the round."""
    measure = dropout_loss(loss, batch_size, backend)

    def both(state: RoundState, stores: Mapping[str, FederatedData]) -> Metrics:
        key = jax.random.fold_in(jax.random.key(_KEY), state.round)
        value = measure(state.server.params, stores["train"], key)
        return dict(evaluate(state, stores)) | {COLUMN: value}

    return both


def dropout_loss(
    loss: Loss, batch_size: int, backend: Backend
) -> Callable[[Params, FederatedData, Key], jax.Array]:
    """A pure function `(params, data, key) -> loss` in training mode."""

    def of_client(params: Params, view: ClientView, key: Key) -> jax.Array:
        batches = -(-view.largest // batch_size)
        position = jnp.arange(batches * batch_size).reshape(batches, batch_size)
        last = view.offset + view.size - 1
        rows = view.order[jnp.minimum(view.offset + position, last)]
        live = position < view.size
        # A minibatch without examples computes on a real one, and does not count.
        live = live.at[:, 0].set(True)
        keys = jax.random.split(key, batches)

        def mean(rows: jax.Array, key: Key) -> jax.Array:
            return loss(params, take(view, rows), key)

        values = jax.vmap(mean)(jnp.where(live, rows, -1), keys)
        have = position[:, 0] < view.size
        return jnp.where(have, values, 0).sum() / have.sum()

    def block(shared: tuple, ids: jax.Array) -> jax.Array:
        params, data, key = shared

        def weighted(client: jax.Array) -> jax.Array:
            view = views(data, jnp.maximum(client, 0))
            value = of_client(params, view, jax.random.fold_in(key, client))
            return jnp.where(client >= 0, view.share * value, 0)

        return jax.vmap(weighted)(ids).sum()

    def total(params: Params, data: FederatedData, key: Key) -> jax.Array:
        n = data.size.shape[0]
        width = max(1, min(n, _EXAMPLES // data.largest))
        ids = jnp.arange(-(-n // width) * width)
        ids = jnp.where(ids < n, ids, -1).reshape(-1, width)
        return backend.total(block, (params, data, key), ids)

    return total
