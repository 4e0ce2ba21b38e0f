"""A store of examples that devices have in equal parts, client after client."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import ClientView, FederatedData, PyTree


def in_parts(
    store: FederatedData, parts: int, put: Callable[[PyTree], PyTree]
) -> FederatedData:
    """A copy in the order of its clients, examples and labels as `put` puts them.

    Example p of that order is row p, so that a part is a stretch of clients (the one at
    a border is in two). Copies of the last example fill up the last part.
    """
    order = np.asarray(store.order)
    rows = np.minimum(np.arange(-(-len(order) // parts) * parts), len(order) - 1)

    def sorted_rows(leaf: Any) -> np.ndarray:
        return np.asarray(leaf)[order[rows]]

    return dataclasses.replace(
        store,
        x=put(jax.tree.map(sorted_rows, store.x)),
        y=put(sorted_rows(store.y)),
        order=jnp.arange(len(order), dtype=jnp.int32),
        parts=parts,
    )


def examples_of(view: ClientView) -> jax.Array:
    """[M * largest] Rows of the store that the clients of `view` own, one by one.

    A client with fewer examples than the largest has its last one several times.
    """
    last = jnp.maximum(view.size - 1, 0)
    position = jnp.minimum(jnp.arange(view.largest), last[:, None])
    return view.order[view.offset[:, None] + position].reshape(-1)


def own_store(view: ClientView) -> ClientView:
    """`view` of clients whose store holds their own examples alone, one by one."""
    slots = view.size.shape[0]
    rows = jnp.arange(slots * view.largest)
    offset = jnp.arange(slots) * view.largest
    return dataclasses.replace(view, order=rows, offset=offset, parts=1)


def own_part(
    store: FederatedData, width: int, number: jax.Array
) -> tuple[FederatedData, jax.Array]:
    """Part `number` as a store, and the positions [blocks, width] of its examples.

    Positions and clients are those of the whole; those behind the end are padding.
    """
    total, have = store.order.shape[0], store.y.shape[0]
    width = min(width, have)
    begin = number * have
    position = begin + jnp.arange(-(-have // width) * width)
    inside = position < jnp.minimum(begin + have, total)
    here = dataclasses.replace(store, order=store.order - begin, parts=1)
    return here, jnp.where(inside, position, total).reshape(-1, width)
