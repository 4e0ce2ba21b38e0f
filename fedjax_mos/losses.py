"""Losses and metrics over masked batches, and what a client minimises.

An `Objective` says what a client minimises, given the model it received. Methods that
change the local loss are sums of terms, and any objective goes with any server.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import (
    Batch,
    ClientView,
    Forward,
    Key,
    LocalWork,
    Loss,
    Metrics,
    Params,
    Scalar,
)

Apply = Callable[[Params, jax.Array, Key | None], jax.Array]


class Memory(NamedTuple):
    """A client's last local model."""

    model: Params
    met: jax.Array  # False until the client has taken part


class Objective(NamedTuple):
    """What a client minimises."""

    # (tools, received model, memory or (), view) -> loss
    build: Callable[[LocalWork, Params, Any, ClientView], Loss]
    keeps_model: bool = False  # whether clients keep their last local model


class Local(NamedTuple):
    """All that a term may look at."""

    params: Params
    hidden: tuple[jax.Array, ...]  # stage outputs: [-1] logits, [-2] features
    batch: Batch
    anchor: Params  # the model received this round
    memory: Any
    labels: jax.Array  # [C] the client's class counts
    forward: Forward


Term = Callable[[Local], jax.Array]


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of `values` where `mask` holds.

    >>> masked_mean(jnp.array([1.0, 3.0, jnp.nan]), jnp.array([True, True, False]))
    Array(2., dtype=float32)
    """
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def cross_entropy(apply: Apply) -> Loss:
    """Softmax cross-entropy of `apply(params, x, key) -> logits`."""

    def loss(params: Params, batch: Batch, key: Key) -> jax.Array:
        return mean_cross_entropy(apply(params, batch.x, key), batch)

    return loss


def classification(apply: Apply) -> Callable[[Params, Batch], Metrics]:
    """Loss and accuracy of every example, in evaluation mode."""

    def metrics(params: Params, batch: Batch) -> Metrics:
        logits = apply(params, batch.x, None)
        values = optax.softmax_cross_entropy_with_integer_labels(logits, batch.y)
        return {"loss": values, "accuracy": jnp.argmax(logits, -1) == batch.y}

    return metrics


def proximal(loss: Loss, anchor: Params, prox: Scalar) -> Loss:
    """`loss` + prox/2 |y - anchor|^2."""

    def regularised(params: Params, batch: Batch, key: Key) -> jax.Array:
        away = optax.tree.sub(params, anchor)
        return loss(params, batch, key) + prox / 2 * optax.tree.vdot(away, away)

    return regularised


def plain() -> Objective:
    """The client's own loss."""
    return Objective(lambda local, x, memory, view: local.loss)


def near_anchor(prox: Scalar) -> Objective:
    """The client's own loss + prox/2 |y - x|^2."""
    return Objective(lambda local, x, memory, view: proximal(local.loss, x, prox))


def shaped(terms: Sequence[Term], *, keeps_model: bool = False) -> Objective:
    """A sum of terms over the stages of the model behind `LocalWork.forward`."""

    def build(local: LocalWork, x: Params, memory: Any, view: ClientView) -> Loss:
        forward = local.forward
        if forward is None:
            raise ValueError(
                "this method looks inside the model: give local_work(forward=...), a "
                "staged model's forward"
            )

        def loss(params: Params, batch: Batch, key: Key) -> jax.Array:
            hidden = forward(params, batch.x, 0, key)
            labels = class_counts(view, hidden[-1].shape[-1])
            now = Local(params, hidden, batch, x, memory, labels, forward)
            return sum((term(now) for term in terms), jnp.zeros((), hidden[-1].dtype))

        return loss

    return Objective(build, keeps_model)


def class_counts(view: ClientView, classes: int) -> jax.Array:
    """How many examples of each class the client has, [C]."""
    position = jnp.arange(view.largest)
    rows = view.order[jnp.minimum(view.offset + position, view.order.shape[0] - 1)]
    mine = (position < view.size).astype(jnp.int32)
    return jnp.zeros(classes, jnp.int32).at[view.y[rows]].add(mine)


def mean_cross_entropy(logits: jax.Array, batch: Batch) -> jax.Array:
    """Mean softmax cross-entropy over the batch's real examples."""
    values = optax.softmax_cross_entropy_with_integer_labels(logits, batch.y)
    return masked_mean(values, batch.mask)
