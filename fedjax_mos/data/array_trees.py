"""Inputs as trees of arrays: row i of every leaf belongs to example i."""

import jax
import numpy as np

from fedjax_mos.types import ArrayLike, PyTree


def as_arrays(x: PyTree) -> PyTree:
    """`x` with NumPy arrays as leaves.

    A list is an array written out; dicts, tuples and other containers are trees.

    >>> as_arrays({"a": [1, 2]})
    {'a': array([1, 2])}
    """
    return jax.tree.map(as_array, x, is_leaf=lambda part: isinstance(part, list))


def as_array(leaf: ArrayLike) -> np.ndarray:
    """A NumPy array in the machine's byte order, the only one that JAX takes."""
    array = np.asarray(leaf)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


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


def check_values(name: str, leaf: np.ndarray) -> None:
    """Raise a ValueError that names the first example that JAX would not keep.

    One with a NaN or infinite value, or with numbers that do not fit the 32 bits (or
    64, where those are enabled) in which they are stored.
    """
    kept = jax.dtypes.canonicalize_dtype(leaf.dtype)
    if leaf.dtype.kind == "f":
        _check_rows(name, leaf, np.isfinite(leaf), "be finite", "a NaN or infinite")
    if leaf.dtype == kept or leaf.dtype.kind not in "uif":
        return
    span = np.finfo(kept) if leaf.dtype.kind == "f" else np.iinfo(kept)
    fits = (leaf >= span.min) & (leaf <= span.max)
    _check_rows(name, leaf, fits, f"fit {kept}", "another")


def _check_rows(
    name: str, leaf: np.ndarray, good: np.ndarray, must: str, found: str
) -> None:
    if not good.all():
        bad = int(np.argmin(good.reshape(len(leaf), -1).all(axis=1)))
        raise ValueError(f"{name} must {must}: example {bad} has {found} value")
