"""Means of per-example metrics over a store, for all examples or per client."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from typing_extensions import TypeAliasType

from fedjax_mos import tree
from fedjax_mos.backends.mapping import vmapped
from fedjax_mos.data.store import take
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.types import (
    Backend,
    Batch,
    FederatedData,
    Metrics,
    Params,
    PyTree,
    RoundState,
)

# Per metric values [B], one per example, or (values [B], weights [B]).
Measure = TypeAliasType("Measure", Callable[[Params, Batch], Mapping[str, Any]])
Stores = Mapping[str, FederatedData]
_GROUPS = 8  # of blocks, when sums are kept per client


def served(state: RoundState) -> Params:
    """The server's model."""
    return state.server.params


def evaluator(
    metrics: Measure,
    batch_size: int = 200,
    backend: Backend | None = None,
    model: Callable[[RoundState], Params] = served,
) -> Evaluate:
    """A pure function `(state, stores) -> {"store_metric": mean}` of `model(state)`.

    The mean is sum_i p_i (mean of client i): where p_i is a share of examples, the mean
    over all examples that clients own; where clients have masses of their own, an
    example counts mass_i / size_i. A metric that brings weights has a weighted mean:
    NaN where all weights are zero. `batch_size` examples at a time, on as many devices
    as `backend` has (default: one).
    """
    layout = vmapped() if backend is None else backend

    def evaluate(state: RoundState, stores: Stores) -> Metrics:
        params, out = model(state), {}
        for name, data in stores.items():
            total = _sum(metrics, params, data, batch_size, layout)
            for metric, (value, weight) in total.items():
                out[f"{name}_{metric}"] = value / weight
        return out

    return evaluate


def per_client(
    metrics: Measure, batch_size: int = 200, backend: Backend | None = None
) -> Callable[[Params, FederatedData], Metrics]:
    """A pure function `(params, data) -> {metric: [N]}` of means per client.

    NaN for a client without examples (or whose examples all have weight zero), infinity
    where examples gave NaN. Costs what `evaluator` costs on the same examples, and
    memory for 8 x N numbers.
    """
    layout = vmapped() if backend is None else backend

    def evaluate(params: Params, data: FederatedData) -> Metrics:
        def group(params: Params, data: FederatedData, positions: jax.Array) -> PyTree:
            def add(sums: PyTree, position: jax.Array) -> tuple[PyTree, None]:
                owner = jnp.searchsorted(data.offset, position, side="right") - 1
                values = _values(metrics, params, data, position)
                sums = jax.tree.map(lambda s, v: s.at[owner].add(v), sums, values)
                return sums, None

            values = jax.eval_shape(
                lambda *args: _values(metrics, *args), params, data, positions[0]
            )
            n = data.size.shape[0]
            zeros = jax.tree.map(lambda v: jnp.zeros(n, v.dtype), values)
            return jax.lax.scan(add, zeros, positions)[0]

        # A few groups of blocks, each with sums for all clients: they are added in
        # place, and a device that has some of the groups needs no other.
        total = layout.measure(group, params, data, batch_size, _GROUPS)
        return {name: mean_or_nan(*sums) for name, sums in total.items()}

    return evaluate


def mean_or_nan(value: jax.Array, weight: jax.Array) -> jax.Array:
    """value / weight: NaN where there is no weight, and only there.

    What is not a number for another reason is infinite, so that no statistic over
    clients can take it for a client without examples.
    """
    mean = value / weight
    return jnp.where((weight > 0) & jnp.isnan(mean), jnp.inf, mean)


def _sum(
    metrics: Measure,
    params: Params,
    data: FederatedData,
    batch_size: int,
    backend: Backend,
) -> PyTree:
    """Per metric the sums of values and weights over all examples."""

    def block(params: Params, data: FederatedData, position: jax.Array) -> PyTree:
        return _block_sums(metrics, params, data, position)

    return backend.measure(block, params, data, batch_size)


def gradient(
    metrics: Measure,
    name: str = "loss",
    batch_size: int = 200,
    backend: Backend | None = None,
) -> Callable[[Params, FederatedData], Params]:
    """A pure function `(params, data) -> gradient` of what `evaluator` says of `name`.

    Of the loss: grad f = sum_i p_i grad f_i, in evaluation mode.
    """
    layout = vmapped() if backend is None else backend

    def block(params: Params, data: FederatedData, position: jax.Array) -> PyTree:
        def total(params: Params) -> tuple[jax.Array, jax.Array]:
            return _block_sums(metrics, params, data, position)[name]

        return jax.grad(total, has_aux=True)(params)

    def mean(params: Params, data: FederatedData) -> Params:
        g, weight = layout.measure(block, params, data, batch_size)
        return jax.tree.map(lambda leaf: leaf / weight.astype(leaf.dtype), g)

    return mean


def _block_sums(
    metrics: Measure, params: Params, data: FederatedData, position: jax.Array
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Per metric the sums of values and weights over the examples at `position`."""
    values = _values(metrics, params, data, position)
    if data.given_mass is not None:
        owner = jnp.searchsorted(data.offset, position, side="right") - 1
        counts = (data.given_mass / jnp.maximum(data.size, 1))[owner]
        values = jax.tree.map(lambda v: counts.astype(v.dtype) * v, values)
    return jax.tree.map(jnp.sum, values)


def _values(
    metrics: Measure, params: Params, data: FederatedData, position: jax.Array
) -> dict[str, tuple[jax.Array, jax.Array]]:
    """Per metric (weight x value, weight) of the examples at `position`.

    Padding counts as zero. In float32 at least, whatever the parameters are: a mean of
    thousands of numbers is worth nothing in half precision.
    """
    total = data.order.shape[0]
    dtype = jnp.promote_types(tree.float_dtype(params), jnp.float32)
    index = jnp.minimum(position, total - 1)
    batch = take(data, jnp.where(position < total, data.order[index], -1))

    def counted(metric: Any) -> tuple[jax.Array, jax.Array]:
        values, weights = weighted(metric)
        weights = jnp.where(batch.mask, weights.astype(dtype), 0)
        # An example without weight may have any value, also none.
        return jnp.where(weights != 0, weights * values.astype(dtype), 0), weights

    return {name: counted(m) for name, m in metrics(params, batch).items()}


def weighted(metric: Any) -> tuple[jax.Array, jax.Array]:
    """Values and weights of a metric that may have brought no weights."""
    if isinstance(metric, tuple):
        return metric
    return metric, jnp.ones(metric.shape, bool)
