"""Personal models: every client trains its own and is measured with it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from fedjax_mos.client.tools import over_all
from fedjax_mos.data.store import views
from fedjax_mos.engine.evaluation import Measure, mean_or_nan, weighted
from fedjax_mos.types import (
    Backend,
    Batch,
    ClientView,
    Cohort,
    FederatedData,
    Key,
    Metrics,
    Params,
    PyTree,
    Row,
)

# (params, what it is trained with, view, key) -> the client's own model
Personalise = Callable[[Params, PyTree, ClientView, Key], Params]


def per_client_personal(
    metrics: Measure, personalise: Personalise, backend: Backend, batch_size: int = 200
) -> Callable[[Params, PyTree, FederatedData, FederatedData, Key], Metrics]:
    """A pure function `(params, hp, train, own, key) -> {metric: [N]}`.

    Every client trains a model of its own on its part of `train`, starting from
    `params`, and is measured with it on its part of `own`. It costs the local work of
    all N clients; models are made and dropped as the backend lays clients out.
    """

    def one_client(
        shared: PyTree, row: Row, view: ClientView
    ) -> tuple[tuple, Row, Metrics]:
        params, hp, own, key = shared
        k_client = jax.random.fold_in(key, view.id)
        y = personalise(params, hp, view, k_client)
        mine = views(own, view.id, view.round)

        def means(batch: Batch, key: Key) -> PyTree:
            count = jnp.maximum(batch.mask.sum(), 1)

            def mean(values: jax.Array) -> jax.Array:
                return jnp.where(batch.mask, values, 0).sum(dtype=jnp.float32) / count

            pairs = {name: weighted(m) for name, m in metrics(y, batch).items()}
            return {
                name: (mean(jnp.where(w != 0, w * v, 0)), mean(w))
                for name, (v, w) in pairs.items()
            }

        total = over_all(means, mine, k_client, batch_size)
        none = mine.size == 0
        return (
            (),
            row,
            {
                n: jnp.where(none, jnp.nan, mean_or_nan(v, w))
                for n, (v, w) in total.items()
            },
        )

    def evaluate(
        params: Params, hp: PyTree, train: FederatedData, own: FederatedData, key: Key
    ) -> Metrics:
        n = train.size.shape[0]
        everyone = Cohort(jnp.arange(n), jnp.ones(n), jnp.ones(n, bool))
        # No message and no row: only what every client measures.
        shared: PyTree = (params, hp, own, key)
        nothing: PyTree = ()
        seen = views(train, everyone.ids)
        return backend.map(one_client, shared, nothing, seen, everyone)[2]

    return evaluate
