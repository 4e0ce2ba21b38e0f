"""Layouts on one device: all clients at once, in chunks, or one by one in Python.

Every backend maps one client's work over the slots of a cohort and reduces the messages
to a weighted mean and a live sum, and maps whole simulations over lanes.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.backends.slots import (
    own_parts,
    pad,
    per_view,
    reduced,
    slot_zero,
    unless_dead,
    with_own,
)
from fedjax_mos.types import (
    Backend,
    ClientView,
    Cohort,
    FederatedData,
    MapClients,
    MapLanes,
    OneClient,
    PyTree,
    Row,
    Rows,
    Shared,
)
from fedjax_mos.types.simulation import Mapped, MeasureStore


def vmapped() -> Backend:
    """All slots at once, and all lanes."""

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Mapped:
        axes = per_view(view, None, 0)
        up, rows, info = jax.vmap(fn, (None, 0, axes))(shared, rows, view)
        return reduced(up, cohort), rows, info

    return _on_one_device("vmapped", run, _all_lanes)


def chunked(chunk: int, *, remat: bool = False) -> Backend:
    """`chunk` slots at a time, so that memory does not grow with the cohort.

    A block whose slots are all dead is skipped.
    Lanes go one after another. `remat` recomputes a client's work in the backward pass
    of a hypergradient instead of keeping its activations.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1: got {chunk}")
    # One slot goes without vmap: its inactive local steps are then really skipped.
    inner = _single if chunk == 1 else vmapped().map

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Mapped:
        slots = cohort.ids.shape[0]
        fn = jax.checkpoint(fn) if remat else fn
        own = (rows, own_parts(view), cohort)
        blocks = jax.tree.map(
            lambda leaf: leaf.reshape(-1, chunk, *leaf.shape[1:]), pad(own, chunk)
        )

        def block(total: PyTree, xs: tuple) -> tuple[PyTree, PyTree]:
            rows, own, cohort = xs
            work = partial(inner, fn, shared, rows, with_own(view, own), cohort)
            part, rows, info = unless_dead(work, cohort)
            return optax.tree.add(total, part), (rows, info)

        up = jax.eval_shape(fn, shared, *slot_zero(rows, view))[0]
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

    return _on_one_device(f"chunked:{chunk}", run, many)


def debug() -> Backend:
    """One client after another in plain Python, nothing compiled.

    Prints and breakpoints work in client code (some of it is also traced, for shapes);
    an exception names the client and the shapes it was given.
    """

    def run(
        fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
    ) -> Mapped:
        if isinstance(cohort.ids, jax.core.Tracer):
            raise ValueError(
                "the debug backend runs one simulation at a time, unjitted"
            )
        outs = []
        for slot, client in enumerate(cohort.ids.tolist()):
            one = (
                tree.gather(rows, slot),
                with_own(view, tree.gather(own_parts(view), slot)),
            )
            try:
                with jax.disable_jit():
                    outs.append(fn(shared, *one))
            except Exception as error:
                shapes = jax.tree.map(jnp.shape, one)
                error.add_note(f"in client {client} (slot {slot}), given {shapes}")
                raise
        up, rows, info = jax.tree.map(lambda *leaves: jnp.stack(leaves), *outs)
        return reduced(up, cohort), rows, info

    return _on_one_device("debug", run, _all_lanes)._replace(traced=False)


def _on_one_device(name: str, run: MapClients, many: MapLanes) -> Backend:
    """Clients and lanes like this, everything else where it is and one by one."""
    rows = Rows(tree.tile, tree.gather, tree.scatter)
    measure = over_positions(_one_by_one)
    return Backend(
        name, run, many, rows, measure, _one_by_one, _where_they_are, traced=True
    )


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


def over_positions(total: Callable[..., PyTree]) -> MeasureStore:
    """`Backend.measure` by `Backend.total`, of a store that every device has."""

    def measure(
        fn: Callable[[PyTree, FederatedData, jax.Array], PyTree],
        shared: PyTree,
        store: FederatedData,
        width: int,
        groups: int | None = None,
    ) -> PyTree:
        def block(read: tuple[PyTree, FederatedData], position: jax.Array) -> PyTree:
            return fn(*read, position)

        have = store.order.shape[0]
        width = min(width, have)
        position = jnp.arange(-(-have // width) * width).reshape(-1, width)
        return total(block, (shared, store), grouped(position, groups, have))

    return measure


def grouped(position: jax.Array, groups: int | None, beyond: int) -> jax.Array:
    """Blocks [B, width] as at most so many groups [G, B / G, width] of equal length.

    Blocks `beyond` the end fill up the last one.
    """
    if groups is None:
        return position
    blocks, width = position.shape
    count = -(-blocks // -(-blocks // groups))
    inner = -(-blocks // count)
    more = jnp.full((count * inner - blocks, width), beyond)
    return jnp.concatenate([position, more]).reshape(count, inner, width)


def _where_they_are(data: PyTree, state: PyTree, lanes: bool) -> tuple[PyTree, PyTree]:
    return data, state


def _single(
    fn: OneClient, shared: Shared, rows: Row, view: ClientView, cohort: Cohort
) -> Mapped:
    """A block of one slot."""
    out = fn(shared, *slot_zero(rows, view))
    up, rows, info = jax.tree.map(lambda leaf: leaf[None], out)
    return reduced(up, cohort), rows, info
