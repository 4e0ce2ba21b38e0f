"""Tree operations that `optax.tree` does not have."""

import hashlib
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import PyTree


def gather(tree: PyTree, ids: jax.Array | np.ndarray | int) -> PyTree:
    """Rows `ids` of every leaf."""
    return jax.tree.map(lambda leaf: leaf[ids], tree)


def scatter(tree: PyTree, ids: jax.Array, rows: PyTree) -> PyTree:
    """`tree` with rows `ids` replaced; ids out of range are dropped."""
    return jax.tree.map(
        lambda leaf, new: leaf.at[ids].set(new, mode="drop"), tree, rows
    )


def tile(tree: PyTree, count: int) -> PyTree:
    """`count` copies of every leaf along a new leading axis."""
    return jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), tree
    )


def bytes_of(tree: PyTree) -> int:
    """The size of all leaves, which may be shapes only."""
    leaves = jax.tree.leaves(tree)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def fingerprint(tree: PyTree) -> str:
    """A hash of all arrays in a tree with their shapes and types.

    It tells one data set or state from another.
    """
    total = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        is_key = jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)
        plain = jax.random.key_data(leaf) if is_key else leaf
        array = np.asarray(plain)
        total.update(f"{array.shape} {array.dtype} ".encode())
        # As bytes, since types that NumPy does not have (bfloat16) give no buffer.
        total.update(np.ascontiguousarray(array).view(np.uint8).data)
    return total.hexdigest()[:16]


def float_dtype(tree: PyTree) -> jnp.dtype:
    """The floating dtype that the leaves promote to."""
    dtypes = [jnp.result_type(leaf) for leaf in jax.tree.leaves(tree)]
    floats = [d for d in dtypes if jnp.issubdtype(d, jnp.floating)]
    return reduce(jnp.promote_types, floats) if floats else jnp.zeros(()).dtype
