"""Where a run's data and state lie on a mesh of devices."""

import dataclasses

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from fedjax_mos.backends.parts import in_parts
from fedjax_mos.backends.rows import divisible
from fedjax_mos.processes import on_host, put
from fedjax_mos.types import FederatedData, PyTree, RoundState


def placed(
    mesh: Mesh,
    axis: str,
    runs: str | None,
    split_data: bool,
    data: PyTree,
    state: PyTree,
    lanes: bool,
) -> tuple[PyTree, PyTree]:
    """Clients' rows in parts along `axis`, lanes along `runs`, the rest everywhere.

    Stores are in parts too if they are to be split. Where the devices do not divide
    the rows, there are copies of the last one behind it.
    """
    parts, cut = mesh.shape[axis], NamedSharding(mesh, P(axis))
    along = dividing(mesh, runs, state) if lanes and runs is not None else P()
    rows_cut = P(*(along or [None] * lanes), axis)

    def store(node: PyTree) -> PyTree:
        if not split_data or not isinstance(node, FederatedData):
            return everywhere(node, mesh)
        if node.parts == 1 < parts:
            node = in_parts(node, parts, lambda tree: put(tree, cut))
        rest = everywhere(dataclasses.replace(node, x=(), y=()), mesh)
        return dataclasses.replace(rest, x=node.x, y=node.y)

    def own(node: PyTree) -> PyTree:
        if not isinstance(node, RoundState):
            return put(node, NamedSharding(mesh, along))
        rows = divisible(node.clients, parts, at=int(lanes))
        none: PyTree = ()
        rest = put(node._replace(clients=none), NamedSharding(mesh, along))
        return rest._replace(clients=put(rows, NamedSharding(mesh, rows_cut)))

    data = jax.tree.map(store, data, is_leaf=lambda n: isinstance(n, FederatedData))
    state = jax.tree.map(own, state, is_leaf=lambda n: isinstance(n, RoundState))
    return data, state


def whole_rows(state: RoundState, clients: int, lanes: bool) -> RoundState:
    """`state` without rows behind the last client's; then on the host, if it had any.

    It is the same whatever the layout, so that another one can resume it.
    """
    rows = jax.tree.leaves(state.clients)
    if not rows or rows[0].shape[lanes] == clients:
        return state
    return state._replace(
        clients=jax.tree.map(
            lambda leaf: leaf[:, :clients] if lanes else leaf[:clients],
            on_host(state.clients),
        )
    )


def dividing(mesh: Mesh, axis: str, lanes: PyTree) -> P:
    """Lanes along an axis; everywhere where its devices do not divide them."""
    uneven = jax.tree.leaves(lanes)[0].shape[0] % mesh.shape[axis]
    return P() if uneven else P(axis)


def everywhere(data: PyTree, mesh: Mesh) -> PyTree:
    """`data` on every device; those of a CPU look at one and the same memory."""
    sharding = NamedSharding(mesh, P())
    if are_apart(mesh):
        return put(data, sharding)
    return jax.device_put(jax.tree.map(np.asarray, data), sharding, may_alias=True)


def are_apart(mesh: Mesh) -> bool:
    """Whether devices have memories of their own: not those of one CPU."""
    devices = mesh.devices.ravel().tolist()
    processes = {device.process_index for device in devices}
    return devices[0].platform != "cpu" or len(processes) > 1
