"""The CSR layout: one flat store, one list of positions, one slice per client.

Memory is O(examples + clients) however unequal the clients are, and clients may share
examples.
"""

# `help` then shows ArrayLike, not all that it stands for.
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.data.array_trees import (
    as_array,
    as_arrays,
    check_values,
    named_leaves,
    rows,
)
from fedjax_mos.data.partitions import Partition
from fedjax_mos.types import ArrayLike, Batch, ClientView, FederatedData, PyTree


def federate(
    x: PyTree,
    y: ArrayLike,
    partition: Partition | None = None,
    *,
    mass: ArrayLike | None = None,
) -> FederatedData:
    """Examples `x`, `y` as clients see them; without a partition, as one client.

    `x` is an array [n, ...] or a tree of such, `y` an array [n, ...]. The store keeps
    their dtypes: bytes stay bytes and are normalised per batch. `mass`, a whole number
    per client, is what clients count with in samplers, weights and means; by default
    their number of examples.

    >>> from fedjax_mos.data.partitions import iid
    >>> y = np.arange(12) % 3
    >>> data = federate(np.zeros((12, 4), np.float32), y, iid(y, 5, seed=0))
    >>> data.size.tolist(), data.largest
    ([3, 3, 2, 2, 2], 3)
    """
    x, y = as_arrays(x), as_array(y)
    count = rows(y)
    for name, leaf in named_leaves("x", x):
        if rows(leaf) != count:
            raise ValueError(
                "x and y must have one row per example: "
                f"{name} has {rows(leaf)} rows, y {count}"
            )
        check_values(name, leaf)
    check_values("y", y)
    if not count:
        raise ValueError("x and y must hold at least one example: got none")
    if partition is None:
        partition = Partition(np.arange(count), np.array([count]))
    order, size = np.asarray(partition.order), np.asarray(partition.size)
    for name, array in (("order", order), ("size", size)):
        if array.ndim != 1 or array.dtype.kind not in "ui" or not array.size:
            raise ValueError(
                f"partition.{name} must be a list of integers: got shape "
                f"{array.shape}, dtype {array.dtype}"
            )
    if (size < 1).any():
        raise ValueError(
            f"every client needs at least one example: client {int(np.argmin(size))} "
            "has none"
        )
    if size.sum() != len(order):
        raise ValueError(
            f"partition.size must sum to the length of partition.order: "
            f"{size.sum()} != {len(order)}"
        )
    if len(order) and not (order.min() >= 0 and order.max() < count):
        raise ValueError(
            f"partition.order must lie in [0, {count - 1}]: "
            f"it spans [{order.min()}, {order.max()}]"
        )
    if len(order) >= 2**31:
        raise ValueError(
            f"at most 2**31 - 1 examples over all clients: got {len(order)}"
        )
    offset = np.cumsum(size) - size
    return FederatedData(
        jax.tree.map(jnp.asarray, x),
        jnp.asarray(y),
        jnp.asarray(order, jnp.int32),
        jnp.asarray(offset, jnp.int32),
        jnp.asarray(size, jnp.int32),
        largest=int(size.max()),
        given_mass=None if mass is None else checked_mass(mass, len(size)),
    )


def checked_mass(mass: ArrayLike, clients: int, name: str = "mass") -> jax.Array:
    """Masses [N], or a ValueError that says what they must be."""
    found = np.asarray(mass)
    if found.shape != (clients,) or found.dtype.kind not in "ui":
        raise ValueError(
            f"{name} must hold one whole number per client, {clients}; shares p can be "
            f"written as round(10**6 * p): got {np.array2string(found, threshold=6)}, "
            f"{found.dtype} of shape {found.shape}"
        )
    if found.min() < 1:
        raise ValueError(
            f"{name} must be at least 1: client {int(found.argmin())} has {found.min()}"
        )
    if (total := sum(found.tolist())) >= 2**31:
        raise ValueError(f"{name} must sum to at most 2**31 - 1: got {total}")
    return jnp.asarray(found, jnp.int32)


def views(
    data: FederatedData, ids: jax.Array, round: jax.Array | int = 0
) -> ClientView:
    """The views of clients `ids`, stacked, in this round."""
    given = data.given_mass
    total = data.order.shape[0] if given is None else given.sum()
    share = data.mass[ids].astype(float) / total
    return ClientView(
        x=data.x,
        y=data.y,
        order=data.order,
        round=jnp.asarray(round, jnp.int32),
        id=ids,
        offset=data.offset[ids],
        size=data.size[ids],
        share=share,
        importance=data.size.shape[0] * share,
        largest=data.largest,
        parts=data.parts,
    )


def take(store: FederatedData | ClientView, rows: jax.Array) -> Batch:
    """The examples at `rows` of the store; a negative row is padding.

    Padding repeats one of the batch's own examples: masked, but never a stranger's.
    """
    index = jnp.where(rows >= 0, rows, jnp.maximum(rows.max(), 0))
    x = jax.tree.map(lambda leaf: leaf[index], store.x)
    return Batch(x, store.y[index], rows >= 0)
