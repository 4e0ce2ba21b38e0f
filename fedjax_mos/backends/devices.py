"""Layouts over several devices: the clients of a round, whole simulations, or both."""

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_mos import tree
from fedjax_mos.backends.mapping import grouped, over_positions, vmapped
from fedjax_mos.backends.parts import examples_of, own_part, own_store
from fedjax_mos.backends.placing import are_apart, dividing, everywhere, placed
from fedjax_mos.backends.rows import cut_rows
from fedjax_mos.backends.slots import filled_up, own_parts, pad, per_view, with_own
from fedjax_mos.processes import put
from fedjax_mos.types import (
    Backend,
    ClientView,
    Cohort,
    FederatedData,
    OneClient,
    PyTree,
    Row,
    Shared,
)
from fedjax_mos.types.simulation import Mapped


def sharded(
    mesh: Mesh | None = None,
    inner: Backend | None = None,
    axis: str = "clients",
    split_data: bool | None = None,
) -> Backend:
    """Slots split over the devices of `mesh` (default: all), `inner` on each.

    Every device has an equal part of all clients' rows, and the rest of the state. With
    `split_data` it has a part of the examples too, else all of them; by default they
    are split unless the devices are those of one CPU, which look at one copy. A round
    moves the rows and examples of its cohort. Lanes go as `inner` does them.
    """
    inner = vmapped() if inner is None else inner
    mesh = _all_devices(axis) if mesh is None else mesh
    split_data = are_apart(mesh) if split_data is None else split_data
    rows_of, parts = cut_rows(mesh, axis), mesh.shape[axis]

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Mapped:
        slots = cohort.ids.shape[0]
        rows, own, cohort = pad((rows, own_parts(view), cohort), parts)
        # Rows already are where their slots are; slots without rows are dealt out in
        # turn: live ones often come first, and each device gets as many.
        deal = np.arange(cohort.ids.shape[0]).reshape(-1, parts).T.ravel()
        dealt = not jax.tree.leaves(rows)
        if dealt:
            own, cohort = tree.gather((own, cohort), deal)
        view, where = with_own(view, own), P()
        if view.parts > 1:
            x, y = rows_of.take((view.x, view.y), examples_of(view))
            view, where = dataclasses.replace(view, x=x, y=y), P(axis)
        specs = per_view(view, P(), P(axis))
        specs = dataclasses.replace(specs, x=where, y=where)

        def local(
            shared: Shared, rows: Row, view: ClientView, cohort: Cohort
        ) -> Mapped:
            seen = view if view.parts == 1 else own_store(view)
            total, rows, info = inner.map(fn, shared, rows, seen, cohort)
            return jax.lax.psum(total, axis), rows, info

        total, rows, info = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P(), P(axis), specs, P(axis)),
            out_specs=(P(), P(axis), P(axis)),
            check_vma=False,
        )(shared, rows, view, cohort)
        if dealt:
            rows, info = tree.gather((rows, info), np.argsort(deal))
        rows, info = jax.tree.map(lambda leaf: leaf[:slots], (rows, info))
        return total, rows, info

    def total(
        fn: Callable[[PyTree, PyTree], PyTree], shared: PyTree, blocks: PyTree
    ) -> PyTree:
        have, padded = filled_up(blocks, parts)

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

    def measure(
        fn: Callable[[PyTree, FederatedData, jax.Array], PyTree],
        shared: PyTree,
        store: FederatedData,
        width: int,
        groups: int | None = None,
    ) -> PyTree:
        if store.parts == 1:
            return over_positions(total)(fn, shared, store, width, groups)
        whole = jax.tree.map(lambda _: P(), store)
        specs = dataclasses.replace(whole, x=P(axis), y=P(axis))

        def block(read: tuple[PyTree, FederatedData], position: jax.Array) -> PyTree:
            return fn(*read, position)

        def local(shared: PyTree, store: FederatedData) -> PyTree:
            here, position = own_part(store, width, jax.lax.axis_index(axis))
            position = grouped(position, groups, store.order.shape[0])
            return jax.lax.psum(inner.total(block, (shared, here), position), axis)

        return jax.shard_map(
            local, mesh=mesh, in_specs=(P(), specs), out_specs=P(), check_vma=False
        )(shared, store)

    place = partial(placed, mesh, axis, None, split_data)
    name = f"clients over {parts} devices, each {inner.name}"
    return Backend(name, run, inner.many, rows_of, measure, total, place, traced=True)


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
        split = NamedSharding(mesh, dividing(mesh, axis, state))
        return everywhere(data, mesh), put(state, split)

    name = f"simulations over {mesh.shape[axis]} devices, each {inner.name}"
    return inner._replace(name=name, many=many, place=place, traced=True)


def meshed(
    runs: int,
    clients: int,
    inner: Backend | None = None,
    split_data: bool | None = None,
) -> Backend:
    """Lanes split over `runs` groups of devices, the slots of each over `clients`.

    For fewer lanes than devices. Every group has its lanes' states, and a device its
    part of their rows; a run alone is done by all groups alike.
    """
    mesh = _mesh((runs, clients), ("runs", "clients"))
    within = sharded(mesh, inner, "clients", split_data)

    def many(
        simulate: Callable[[PyTree, PyTree], PyTree], shared: PyTree, lanes: PyTree
    ) -> PyTree:
        have, padded = filled_up(lanes, runs)
        split = jax.vmap(simulate, (None, 0), spmd_axis_name="runs")
        return jax.tree.map(lambda leaf: leaf[:have], split(shared, padded))

    split_data = are_apart(mesh) if split_data is None else split_data
    place = partial(placed, mesh, "clients", "runs", split_data)
    name = f"simulations over {runs} groups of devices, each {within.name}"
    return within._replace(name=name, many=many, place=place)


def _all_devices(axis: str) -> Mesh:
    return _mesh((len(jax.devices()),), (axis,))


def _mesh(shape: tuple[int, ...], axes: tuple[str, ...]) -> Mesh:
    if (wanted := int(np.prod(shape))) != len(jax.devices()):
        raise ValueError(
            f"backend must use all {len(jax.devices())} devices: "
            f"{'x'.join(map(str, shape))} are {wanted}"
        )
    auto = (jax.sharding.AxisType.Auto,) * len(axes)
    return jax.make_mesh(shape, axes, axis_types=auto)
