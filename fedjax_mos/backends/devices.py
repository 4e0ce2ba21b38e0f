"""Layouts over several devices: the clients of a round, or whole simulations."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_mos.backends.mapping import (
    filled_up,
    own_parts,
    pad,
    per_view,
    vmapped,
    with_own,
)
from fedjax_mos.types import (
    Backend,
    ClientView,
    Cohort,
    OneClient,
    PyTree,
    Row,
    Shared,
)
from fedjax_mos.types.simulation import Mapped


def sharded(
    mesh: Mesh | None = None, inner: Backend | None = None, axis: str = "clients"
) -> Backend:
    """Slots split over the devices of `mesh` (default: all), `inner` on each.

    Lanes go as `inner` does them. Every device keeps the whole state, all clients' rows
    included.
    """
    inner = vmapped() if inner is None else inner
    mesh = _all_devices(axis) if mesh is None else mesh

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Mapped:
        slots = cohort.ids.shape[0]
        rows, own, cohort = pad((rows, own_parts(view), cohort), mesh.shape[axis])

        def local(
            shared: Shared, rows: Row, view: ClientView, cohort: Cohort
        ) -> Mapped:
            total, rows, info = inner.map(fn, shared, rows, view, cohort)
            return jax.lax.psum(total, axis), rows, info

        total, rows, info = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P(), P(axis), per_view(view, P(), P(axis)), P(axis)),
            out_specs=(P(), P(axis), P(axis)),
            check_vma=False,
        )(shared, rows, with_own(view, own), cohort)
        rows, info = jax.tree.map(lambda leaf: leaf[:slots], (rows, info))
        return total, rows, info

    def total(
        fn: Callable[[PyTree, PyTree], PyTree], shared: PyTree, blocks: PyTree
    ) -> PyTree:
        have, padded = filled_up(blocks, mesh.shape[axis])

        def counted(shared: PyTree, block: tuple) -> PyTree:
            position, own = block
            return jax.tree.map(
                lambda leaf: jnp.where(position < have, leaf, 0), fn(shared, own)
            )

        def local(shared: PyTree, blocks: PyTree) -> PyTree:
            return jax.lax.psum(inner.total(counted, shared, blocks), axis)

        return jax.shard_map(
            local, mesh=mesh, in_specs=(P(), P(axis)), out_specs=P(), check_vma=False
        )(shared, (jnp.arange(len(jax.tree.leaves(padded)[0])), padded))

    def place(data: PyTree, state: PyTree, lanes: bool) -> tuple[PyTree, PyTree]:
        everywhere = NamedSharding(mesh, P())
        return _shared(data, everywhere), jax.device_put(state, everywhere)

    name = f"clients over {mesh.shape[axis]} devices, each {inner.name}"
    return Backend(name, run, inner.many, total, place, traced=True)


def spread(
    mesh: Mesh | None = None, inner: Backend | None = None, axis: str = "lanes"
) -> Backend:
    """Lanes split over the devices of `mesh` (default: all), `inner` on each.

    Where the devices do not divide them, some do copies of the last one, and between
    blocks of rounds every device has the state of all.
    """
    inner = vmapped() if inner is None else inner
    mesh = _all_devices(axis) if mesh is None else mesh

    def many(
        simulate: Callable[[PyTree, PyTree], PyTree], shared: PyTree, lanes: PyTree
    ) -> PyTree:
        have, padded = filled_up(lanes, mesh.shape[axis])
        out = jax.shard_map(
            partial(inner.many, simulate),
            mesh=mesh,
            in_specs=(P(), P(axis)),
            out_specs=P(axis),
            check_vma=False,
        )(shared, padded)
        return jax.tree.map(lambda leaf: leaf[:have], out)

    def place(data: PyTree, state: PyTree, lanes: bool) -> tuple[PyTree, PyTree]:
        if not lanes:
            return inner.place(data, state, lanes)
        uneven = jax.tree.leaves(state)[0].shape[0] % mesh.shape[axis]
        split = NamedSharding(mesh, P() if uneven else P(axis))
        return _shared(data, NamedSharding(mesh, P())), jax.device_put(state, split)

    name = f"simulations over {mesh.shape[axis]} devices, each {inner.name}"
    return Backend(name, inner.map, many, inner.total, place, traced=True)


def _all_devices(axis: str) -> Mesh:
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((len(jax.devices()),), (axis,), axis_types=auto)


def _shared(data: PyTree, everywhere: NamedSharding) -> PyTree:
    """`data` on every device; those of a CPU look at one and the same memory."""
    if everywhere.mesh.devices.flat[0].platform == "cpu":
        data = jax.tree.map(np.asarray, data)
    return jax.device_put(data, everywhere, may_alias=True)
