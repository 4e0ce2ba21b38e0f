"""A run's state on disk, by orbax."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_mos.processes import several
from fedjax_mos.types import PyTree


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )


def _plain(state: PyTree) -> dict[str, Any]:
    """The leaves by number; keys as their data. Empty ones have none to keep."""
    leaves = jax.tree.leaves(state)
    return {
        f"{i:05}": jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for i, leaf in enumerate(leaves)
        if leaf.size
    }


def shapes_of(state: PyTree) -> dict[str, str]:
    """Leaf -> its type and shape."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {
        jax.tree_util.keystr(where): f"{leaf.dtype}{list(leaf.shape)}"
        for where, leaf in leaves
    }


def _checkpointer() -> Any:
    """One that waits for no other process: each has files of its own."""
    import orbax.checkpoint as ocp

    if not several():
        return ocp.StandardCheckpointer()
    me = jax.process_index()
    alone = ocp.options.MultiprocessingOptions(
        primary_host=me, active_processes={me}, barrier_sync_key_prefix=str(me)
    )
    return ocp.StandardCheckpointer(multiprocessing_options=alone)


def save_state(path: Path, state: PyTree) -> None:
    """Write all leaves."""
    with _checkpointer() as checkpointer:
        # Of several processes orbax takes NumPy arrays from one alone.
        plain = _plain(state)
        checkpointer.save(path, jax.device_get(plain) if several() else plain)


def read_state(path: Path, like: PyTree) -> PyTree:
    """A state shaped `like` this one, as NumPy arrays for a backend to place."""
    with _checkpointer() as checkpointer:
        whole = jax.tree.map(
            lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(_plain, like)
        )
        found = checkpointer.restore(path, whole)
    leaves, tree = jax.tree.flatten(like)
    back = [
        jax.random.wrap_key_data(found[f"{i:05}"], impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else found.get(f"{i:05}", leaf)
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(tree, back)
