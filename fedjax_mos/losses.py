"""Losses and metrics over masked batches."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import Batch, Key, Loss, Metrics, Params

Apply = Callable[[Params, jax.Array, Key | None], jax.Array]


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of `values` where `mask` holds.

    >>> masked_mean(jnp.array([1.0, 3.0, jnp.nan]), jnp.array([True, True, False]))
    Array(2., dtype=float32)
    """
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def cross_entropy(apply: Apply) -> Loss:
    """Softmax cross-entropy of `apply(params, x, key) -> logits`."""

    def loss(params: Params, batch: Batch, key: Key) -> jax.Array:
        logits = apply(params, batch.x, key)
        values = optax.softmax_cross_entropy_with_integer_labels(logits, batch.y)
        return masked_mean(values, batch.mask)

    return loss


def classification(apply: Apply) -> Callable[[Params, Batch], Metrics]:
    """Loss and accuracy of every example, in evaluation mode."""

    def metrics(params: Params, batch: Batch) -> Metrics:
        logits = apply(params, batch.x, None)
        values = optax.softmax_cross_entropy_with_integer_labels(logits, batch.y)
        return {"loss": values, "accuracy": jnp.argmax(logits, -1) == batch.y}

    return metrics
