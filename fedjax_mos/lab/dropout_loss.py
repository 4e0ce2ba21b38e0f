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
from fedjax_mos.target import platform
from fedjax_mos.types import (
    Backend,
    FederatedData,
    Key,
    Loss,
    Metrics,
    Params,
    RoundState,
)

COLUMN = "train_dropout_loss"
_KEY = 0xD0  # of its dropout, apart from all keys of a run
_CPU, _DEVICE = 64, 4096  # examples at a time: what a core's cache holds, and more


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

    def block(shared: tuple, numbers: jax.Array) -> jax.Array:
        params, data, key, ends = shared

        def weighted(number: jax.Array) -> jax.Array:
            """p_i / (minibatches of client i) times the mean loss of one of them."""
            owner = jnp.searchsorted(ends, number, side="right")
            client = jnp.minimum(owner, len(ends) - 1)
            view = views(data, client)
            count = -(-view.size // batch_size)
            own = number - (ends[client] - count)  # its number among the client's
            position = own * batch_size + jnp.arange(batch_size)
            rows = view.order[view.offset + jnp.minimum(position, view.size - 1)]
            # Beyond the last minibatch it computes on a real example, uncounted.
            live = (position < view.size).at[0].set(True)
            k_own = jax.random.fold_in(jax.random.fold_in(key, client), own)
            value = loss(params, take(view, jnp.where(live, rows, -1)), k_own)
            return jnp.where(owner < len(ends), view.share * value / count, 0)

        return jax.vmap(weighted)(numbers).sum()

    def total(params: Params, data: FederatedData, key: Key) -> jax.Array:
        # Minibatches are numbered through all clients; no shape knows how many.
        ends = jnp.cumsum(-(-data.size // batch_size))
        n, owned = data.size.shape[0], data.order.shape[0]
        most = -(-data.largest // batch_size)  # minibatches of the largest client
        bound = min(n * most, (owned + n * (batch_size - 1)) // batch_size)
        examples = _CPU if platform() == "cpu" else _DEVICE
        width = max(1, min(bound, examples // batch_size))
        numbers = jnp.arange(-(-bound // width) * width).reshape(-1, width)
        return backend.total(block, (params, data, key, ends), numbers)

    return total
