"""How clients are laid out: the only file that knows they are a batch axis.

Every backend maps one client's work over the slots of a cohort and reduces the messages
to a weighted mean and a live sum, and maps whole simulations over lanes. Results do not
depend on the layout.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_mos import tree
from fedjax_mos.types import (
    Backend,
    ClientView,
    Cohort,
    OneClient,
    PyTree,
    Row,
    Shared,
)


def vmapped() -> Backend:
    """All slots at once, and all lanes."""

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Any:
        axes = _per_view(view, None, 0)
        mapped = jax.vmap(fn, (None, 0, axes, 0))
        up, rows, info = mapped(shared, rows, view, cohort.ids)
        return _reduce(up, cohort), rows, info

    return Backend(
        "vmapped", run, _all_lanes, _one_by_one, _where_they_are, traced=True
    )


def chunked(chunk: int, *, remat: bool = False) -> Backend:
    """`chunk` slots at a time, so that memory does not grow with the cohort.

    Lanes go one after another. `remat` recomputes a client's work in the backward pass
    of a hypergradient instead of keeping its activations.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1: got {chunk}")
    # One slot goes without vmap: its inactive local steps are then really skipped.
    inner = _single if chunk == 1 else vmapped().map

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Any:
        slots = cohort.ids.shape[0]
        fn = jax.checkpoint(fn) if remat else fn
        own = (rows, _own(view), cohort)
        blocks = jax.tree.map(
            lambda leaf: leaf.reshape(-1, chunk, *leaf.shape[1:]), _pad(own, chunk)
        )

        def block(total: PyTree, xs: tuple) -> tuple[PyTree, PyTree]:
            rows, own, cohort = xs
            part, rows, info = inner(fn, shared, rows, _with_own(view, own), cohort)
            return optax.tree.add(total, part), (rows, info)

        up = jax.eval_shape(fn, shared, *_slot_zero(rows, view, cohort))[0]
        zeros = optax.tree.zeros_like((up, up))
        total, out = jax.lax.scan(block, zeros, blocks)
        rows, info = jax.tree.map(
            lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:slots], out
        )
        return total, rows, info

    def many(
        simulate: Callable[[PyTree, PyTree], PyTree], shared: PyTree, lanes: PyTree
    ) -> PyTree:
        return jax.lax.map(partial(simulate, shared), lanes)

    return Backend(
        f"chunked:{chunk}", run, many, _one_by_one, _where_they_are, traced=True
    )


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
    ) -> Any:
        slots = cohort.ids.shape[0]
        rows, own, cohort = _pad((rows, _own(view), cohort), mesh.shape[axis])

        def local(shared: Shared, rows: Row, view: ClientView, cohort: Cohort) -> Any:
            total, rows, info = inner.map(fn, shared, rows, view, cohort)
            return jax.lax.psum(total, axis), rows, info

        total, rows, info = jax.shard_map(
            local,
            mesh=mesh,
            in_specs=(P(), P(axis), _per_view(view, P(), P(axis)), P(axis)),
            out_specs=(P(), P(axis), P(axis)),
            check_vma=False,
        )(shared, rows, _with_own(view, own), cohort)
        rows, info = jax.tree.map(lambda leaf: leaf[:slots], (rows, info))
        return total, rows, info

    def total(
        fn: Callable[[PyTree, PyTree], PyTree], shared: PyTree, blocks: PyTree
    ) -> PyTree:
        have, padded = _filled_up(blocks, mesh.shape[axis])

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
        have, padded = _filled_up(lanes, mesh.shape[axis])
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


def debug() -> Backend:
    """One client after another in plain Python, nothing compiled.

    Prints and breakpoints work in client code (some of it is also traced, for shapes);
    an exception names the client and the shapes it was given.
    """

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Any:
        if isinstance(cohort.ids, jax.core.Tracer):
            raise ValueError(
                "the debug backend runs one simulation at a time, unjitted"
            )
        outs = []
        for slot, client in enumerate(cohort.ids.tolist()):
            one = (
                tree.gather(rows, slot),
                _with_own(view, tree.gather(_own(view), slot)),
            )
            try:
                with jax.disable_jit():
                    outs.append(fn(shared, *one, cohort.ids[slot]))
            except Exception as error:
                shapes = jax.tree.map(jnp.shape, one)
                error.add_note(f"in client {client} (slot {slot}), given {shapes}")
                raise
        up, rows, info = jax.tree.map(lambda *leaves: jnp.stack(leaves), *outs)
        return _reduce(up, cohort), rows, info

    return Backend("debug", run, _all_lanes, _one_by_one, _where_they_are, traced=False)


def _all_lanes(
    simulate: Callable[[PyTree, PyTree], PyTree], shared: PyTree, lanes: PyTree
) -> PyTree:
    return jax.vmap(simulate, (None, 0))(shared, lanes)


def _one_by_one(
    fn: Callable[[PyTree, PyTree], PyTree], shared: PyTree, blocks: PyTree
) -> PyTree:
    def add(total: PyTree, block: PyTree) -> tuple[PyTree, None]:
        return optax.tree.add(total, fn(shared, block)), None

    shapes = jax.eval_shape(fn, shared, tree.gather(blocks, 0))
    zeros = optax.tree.zeros_like(shapes)
    return jax.lax.scan(add, zeros, blocks)[0]


def _where_they_are(data: PyTree, state: PyTree, lanes: bool) -> tuple[PyTree, PyTree]:
    return data, state


def _all_devices(axis: str) -> Mesh:
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((len(jax.devices()),), (axis,), axis_types=auto)


def _shared(data: PyTree, everywhere: NamedSharding) -> PyTree:
    """`data` on every device; those of a CPU look at one and the same memory."""
    if jax.default_backend() == "cpu":
        data = jax.tree.map(np.asarray, data)
    return jax.device_put(data, everywhere, may_alias=True)


def _single(
    fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
) -> Any:
    """A block of one slot."""
    out = fn(shared, *_slot_zero(rows, view, cohort))
    up, rows, info = jax.tree.map(lambda leaf: leaf[None], out)
    return _reduce(up, cohort), rows, info


def _reduce(up: PyTree, cohort: Cohort) -> tuple[PyTree, PyTree]:
    """Weighted mean and live sum of the messages."""

    def mean(leaf: jax.Array) -> jax.Array:
        weights = cohort.weights.astype(leaf.dtype)
        return jnp.tensordot(weights, live(leaf, cohort), axes=1)

    return (
        jax.tree.map(mean, up),
        jax.tree.map(lambda leaf: live(leaf, cohort).sum(0), up),
    )


def live(leaf: jax.Array, cohort: Cohort) -> jax.Array:
    """`leaf` [M, ...] with zeros in dead slots, before any product: 0 * NaN is NaN."""
    mask = cohort.mask.reshape(-1, *[1] * (leaf.ndim - 1))
    return jnp.where(mask, leaf, 0)


def _pad(slots: tuple, multiple: int) -> tuple:
    """Add dead slots, copies of the last one, up to a multiple."""
    have, (*others, cohort) = _filled_up(slots, multiple)
    mask = cohort.mask & (jnp.arange(cohort.ids.shape[0]) < have)
    return (*others, Cohort(cohort.ids, cohort.weights, mask))


def _filled_up(rows: PyTree, multiple: int) -> tuple[int, PyTree]:
    """How many rows there are, and those with copies of the last up to a multiple."""
    have = jax.tree.leaves(rows)[0].shape[0]
    if have % multiple == 0:
        return have, rows
    index = jnp.arange(-(-have // multiple) * multiple)
    return have, tree.gather(rows, jnp.minimum(index, have - 1))


_OWN = ("offset", "size", "share", "importance")  # a view's parts with a slot axis


def _own(view: ClientView) -> tuple[jax.Array, ...]:
    return tuple(getattr(view, name) for name in _OWN)


def _with_own(view: ClientView, own: tuple) -> ClientView:
    return dataclasses.replace(view, **dict(zip(_OWN, own, strict=True)))


def _per_view(view: ClientView, shared: Any, own: Any) -> Any:
    """A view-shaped tree of axes or shardings."""
    one = dataclasses.replace(view, x=shared, y=shared, order=shared)
    return _with_own(one, (own,) * len(_OWN))


def _slot_zero(rows: Row, view: ClientView, cohort: Cohort) -> tuple:
    own = _with_own(view, tree.gather(_own(view), 0))
    return tree.gather(rows, 0), own, cohort.ids[0]
