"""Means of per-example metrics over a store, for all examples or per client."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

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

Measure = Callable[[Params, Batch], Metrics]  # values [B] per example
Stores = Mapping[str, FederatedData]


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

    The mean runs over all examples that the clients of a store own; since p_i is a
    share of examples, that is sum_i p_i (mean of client i). `batch_size` examples at a
    time, on as many devices as `backend` has (default: one).
    """
    layout = vmapped() if backend is None else backend

    def evaluate(state: RoundState, stores: Stores) -> Metrics:
        params, out = model(state), {}
        for name, data in stores.items():
            total = _sum(
                metrics, params, data, batch_size, layout, lambda m, _: m.sum()
            )
            for metric, value in total.items():
                out[f"{name}_{metric}"] = value / data.order.shape[0]
        return out

    return evaluate


def per_client(
    metrics: Measure, batch_size: int = 200
) -> Callable[[Params, FederatedData], Metrics]:
    """A pure function `(params, data) -> {metric: [N]}` of means per client."""

    def evaluate(params: Params, data: FederatedData) -> Metrics:
        n = data.size.shape[0]

        def by_client(values: jax.Array, position: jax.Array) -> jax.Array:
            owner = jnp.searchsorted(data.offset, position, side="right") - 1
            return jnp.zeros(n, values.dtype).at[owner].add(values)

        total = _sum(metrics, params, data, batch_size, vmapped(), by_client)
        return {name: value / data.size for name, value in total.items()}

    return evaluate


def _sum(
    metrics: Measure,
    params: Params,
    data: FederatedData,
    batch_size: int,
    backend: Backend,
    reduce: Callable[[jax.Array, jax.Array], jax.Array],
) -> PyTree:
    """Sum of `reduce(values, positions)` over blocks; padding counts as zero."""
    total = data.order.shape[0]
    width = min(batch_size, total)
    positions = jnp.arange(-(-total // width) * width).reshape(-1, width)
    dtype = tree.float_dtype(params)

    def block(shared: tuple[Params, FederatedData], position: jax.Array) -> Metrics:
        params, data = shared
        index = jnp.minimum(position, total - 1)
        batch = take(data, jnp.where(position < total, data.order[index], -1))
        return {
            name: reduce(jnp.where(batch.mask, v.astype(dtype), 0), index)
            for name, v in metrics(params, batch).items()
        }

    return backend.total(block, (params, data), positions)
