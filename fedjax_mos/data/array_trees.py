"""Inputs as trees of arrays: row i of every leaf belongs to example i."""

import jax
import numpy as np

from fedjax_mos.types import PyTree


def as_arrays(x: PyTree) -> PyTree:
    """`x` with NumPy arrays as leaves.

    A list is an array written out; dicts, tuples and other containers are trees.

    >>> as_arrays({"a": [1, 2]})
    {'a': array([1, 2])}
    """
    return jax.tree.map(np.asarray, x, is_leaf=lambda part: isinstance(part, list))


def named_leaves(name: str, x: PyTree) -> list[tuple[str, np.ndarray]]:
    """Every leaf with what people would write to get it; at least one.

    >>> [where for where, _ in named_leaves("x", {"a": np.zeros(2), "b": np.ones(2)})]
    ["x['a']", "x['b']"]
    """
    found = jax.tree_util.tree_leaves_with_path(x)
    if not found:
        raise ValueError(f"{name} must hold an array: got {x!r}")
    return [(name + jax.tree_util.keystr(path), leaf) for path, leaf in found]


def rows(leaf: np.ndarray) -> int:
    """The number of examples that a leaf [n, ...] holds; a single number has none."""
    return leaf.shape[0] if leaf.ndim else 0


def check_finite(name: str, leaf: np.ndarray) -> None:
    """Raise a ValueError that names the first example with a NaN or infinite value."""
    if leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
        bad = int(np.argmin(np.isfinite(leaf).reshape(len(leaf), -1).all(axis=1)))
        raise ValueError(
            f"{name} must be finite: example {bad} has a NaN or infinite value"
        )
