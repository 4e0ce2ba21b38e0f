"""Losses and metrics over masked batches.

A loss of outputs is a function `(outputs, y) -> [B]`, one value per example; the engine
takes masked means of it. The same functions serve as metrics; a metric may also return
(values [B], weights [B]) and then has a weighted mean.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import optax
from typing_extensions import TypeAliasType

from fedjax_mos.target import platform
from fedjax_mos.types import Batch, Key, Loss, Metrics, Params, PyTree

#: (parameters, inputs, key; None: evaluation mode) -> outputs.
Apply = TypeAliasType("Apply", Callable[[Params, PyTree, Key | None], jax.Array])
#: (outputs, y) -> [B], one value per example.
PerExample = TypeAliasType("PerExample", Callable[[jax.Array, jax.Array], jax.Array])


def masked_mean(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of `values` where `mask` holds.

    >>> masked_mean(jnp.array([1.0, 3.0, jnp.nan]), jnp.array([True, True, False]))
    Array(2., dtype=float32)
    """
    return jnp.where(mask, values, 0).sum() / jnp.maximum(mask.sum(), 1)


def cross_entropy(outputs: jax.Array, y: jax.Array) -> jax.Array:
    """Softmax cross-entropy of logits with integer labels."""
    if platform() != "cpu":
        # By comparison: the gradient of a gather is a scatter, kernels of its own.
        own = jnp.arange(outputs.shape[-1]) == y[..., None]
        label = jnp.where(own, outputs, 0).sum(-1)
        return jax.nn.logsumexp(outputs, -1) - label
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y)


def squared_error(outputs: jax.Array, y: jax.Array) -> jax.Array:
    """|outputs - y|^2 / 2, summed over all but the first axis."""
    away = outputs.reshape(y.shape) - y
    return 0.5 * (away**2).reshape(len(y), -1).sum(-1)


def accuracy(outputs: jax.Array, y: jax.Array) -> jax.Array:
    """Whether the largest logit is the label's."""
    return jnp.argmax(outputs, -1) == y


def top(k: int) -> PerExample:
    """Whether the label's logit is among the k largest; ties count against it.

    >>> top(2)(jnp.array([[3.0, 2.0, 1.0]]), jnp.array([1])).tolist()
    [True]
    """

    def within(outputs: jax.Array, y: jax.Array) -> jax.Array:
        own = jnp.take_along_axis(outputs, y[:, None], axis=-1)
        # Its own logit is one of those that are not less; what is no number is not.
        return (~(outputs < own)).sum(-1) <= k

    return within


def of_class(metric: PerExample, number: int) -> Callable[..., tuple]:
    """A metric over the examples of one class only.

    >>> recall = of_class(accuracy, 1)
    >>> recall(jnp.eye(2), jnp.array([0, 0]))[1].tolist()  # no example of the class
    [False, False]
    """
    return lambda outputs, y: (metric(outputs, y), y == number)


def accuracy_per_class(classes: int) -> dict[str, Callable[..., tuple]]:
    """`accuracy_0`, `accuracy_1`, ...: for `metrics=` of an experiment."""
    return {f"accuracy_{c}": of_class(accuracy, c) for c in range(classes)}


def absolute_error(outputs: jax.Array, y: jax.Array) -> jax.Array:
    """|outputs - y|, summed over all but the first axis."""
    return jnp.abs(outputs.reshape(y.shape) - y).reshape(len(y), -1).sum(-1)


def mean_loss(apply: Apply, loss: PerExample = cross_entropy) -> Loss:
    """The mean of `loss` over a batch, for `apply(params, x, key) -> outputs`."""

    def mean(params: Params, batch: Batch, key: Key | None) -> jax.Array:
        values = loss(apply(params, batch.x, key), batch.y)
        return masked_mean(values, batch.mask)

    return mean


def measures(
    apply: Apply,
    loss: PerExample = cross_entropy,
    metrics: Mapping[str, PerExample] | None = None,
) -> Callable[[Params, Batch], Metrics]:
    """The loss and `metrics` of every example, in evaluation mode.

    By default the accuracy, if the loss is the cross-entropy.
    """
    if metrics is None:
        metrics = {"accuracy": accuracy} if loss is cross_entropy else {}
    named = {"loss": loss} | dict(metrics)

    def measure(params: Params, batch: Batch) -> Metrics:
        outputs = apply(params, batch.x, None)
        return {name: value(outputs, batch.y) for name, value in named.items()}

    return measure


def mean_cross_entropy(logits: jax.Array, batch: Batch) -> jax.Array:
    """Mean softmax cross-entropy over the batch's real examples."""
    return masked_mean(cross_entropy(logits, batch.y), batch.mask)
