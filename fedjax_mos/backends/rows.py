"""A table of rows that devices have in equal parts: how some rows are read and written.

Leaves are [N, ...], cut along the first axis. All devices ask for the same rows; each
gives those it has and zeros for the others, and the sum over devices is what was asked
for. So M rows travel, never N. Where the devices do not divide a table, it is made with
rows behind the last one, which nobody reads; a table without those is read as if every
device had it.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_mos import tree
from fedjax_mos.types import PyTree, Rows


def cut_rows(mesh: Mesh, axis: str) -> Rows:
    """Rows of which each device along `axis` has an equal part."""
    parts = mesh.shape[axis]

    def make(row: PyTree, count: int) -> PyTree:
        # On its devices from the start: the whole of it may fit none.
        table = tree.tile(row, count + -count % parts)
        return jax.lax.with_sharding_constraint(table, NamedSharding(mesh, P(axis)))

    def take(table: PyTree, ids: jax.Array) -> PyTree:
        if _rows(table) % parts:
            return tree.gather(table, ids)
        have = ids.shape[0]
        ids = jnp.pad(ids, (0, -have % parts))

        def local(table: PyTree, ids: jax.Array) -> PyTree:
            return jax.tree.map(lambda leaf: _sum_of_parts(leaf, ids, axis), table)

        found = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P(axis), P()),
            out_specs=P(axis),
            check_vma=False,
        )(table, ids)
        return jax.tree.map(lambda leaf: leaf[:have], found)

    def put(table: PyTree, ids: jax.Array, rows: PyTree) -> PyTree:
        if _rows(table) % parts:
            return tree.scatter(table, ids, rows)
        more = -ids.shape[0] % parts
        rows = jax.tree.map(partial(_lengthened, more=more), rows)
        ids = jnp.pad(ids, (0, more), constant_values=_rows(table))

        def local(table: PyTree, ids: jax.Array, rows: PyTree) -> PyTree:
            at = _place(table, ids, axis)
            at = jnp.where(at < 0, _rows(table), at)  # dropped, as those behind the end
            every = jax.lax.all_gather(rows, axis, tiled=True)
            return tree.scatter(table, at, every)

        return jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P(axis), P(), P(axis)),
            out_specs=P(axis),
            check_vma=False,
        )(table, ids, rows)

    return Rows(make, take, put)


def divisible(table: PyTree, parts: int, at: int = 0) -> PyTree:
    """Copies of the last row behind it, until `parts` divide the rows (axis `at`)."""
    return jax.tree.map(
        lambda leaf: _lengthened(leaf, -leaf.shape[at] % parts, at), table
    )


def _lengthened(leaf: jax.Array, more: int, at: int = 0) -> jax.Array:
    if not more:
        return leaf
    last = jax.lax.slice_in_dim(leaf, leaf.shape[at] - 1, None, axis=at)
    return jnp.concatenate([leaf, jnp.repeat(last, more, axis=at)], axis=at)


def _rows(table: PyTree) -> int:
    return next((leaf.shape[0] for leaf in jax.tree.leaves(table)), 0)


def _place(table: PyTree, ids: jax.Array, axis: str) -> jax.Array:
    """Where the rows `ids` of the whole table would be in this device's part."""
    return ids - jax.lax.axis_index(axis) * _rows(table)


def _sum_of_parts(leaf: jax.Array, ids: jax.Array, axis: str) -> jax.Array:
    """A device's share of the rows `ids`, from the parts that all devices have."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _sum_of_parts(jax.random.key_data(leaf), ids, axis)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    at, have = _place(leaf, ids, axis), leaf.shape[0]
    here = ((at >= 0) & (at < have)).reshape(-1, *[1] * (leaf.ndim - 1))
    mine = jnp.where(here, leaf[jnp.clip(at, 0, have - 1)], jnp.zeros((), leaf.dtype))
    if jnp.issubdtype(leaf.dtype, jnp.floating):
        return _exact_sum(mine, axis)
    if leaf.dtype == bool:
        return _sum(mine.astype(jnp.uint8), axis).astype(bool)
    return _sum(mine, axis)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _exact_sum(mine: jax.Array, axis: str) -> jax.Array:
    """The sum, where all but one are zero: its very bits, also of -0 and NaN."""
    bits = jnp.dtype(f"uint{8 * mine.dtype.itemsize}")
    whole = _sum(jax.lax.bitcast_convert_type(mine, bits), axis)
    return jax.lax.bitcast_convert_type(whole, mine.dtype)


@_exact_sum.defjvp
def _exact_sum_jvp(
    axis: str, primals: tuple, tangents: tuple
) -> tuple[jax.Array, jax.Array]:
    (mine,), (tangent,) = primals, tangents
    return _exact_sum(mine, axis), _sum(tangent, axis)


def _sum(mine: jax.Array, axis: str) -> jax.Array:
    return jax.lax.psum_scatter(mine, axis, tiled=True)
