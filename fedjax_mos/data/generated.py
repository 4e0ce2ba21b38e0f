"""Populations whose examples are made when they are needed.

A client's examples are a pure function of its number, so that ten million clients take
the memory of those that a block of rounds has drawn.
"""

import dataclasses
from collections.abc import Callable
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.data.store import checked_mass
from fedjax_mos.types import ArrayLike, FederatedData, Key, PyTree

Examples = tuple[PyTree, jax.Array]  # x, leaves [examples, ...], and y [examples, ...]
Generate = Callable[[jax.Array, Key], Examples]  # (client, key of its own)


@dataclasses.dataclass(frozen=True, eq=False)
class Generated:
    """Clients whose examples are a function of their number; see `generated`."""

    clients: int
    size: np.ndarray  # [N] examples of each
    generate: Generate
    seed: int
    measured: int

    @property
    def largest(self) -> int:
        """Examples of the largest client: what `generate` makes for each."""
        return int(self.size.max())

    @cached_property
    def data(self) -> FederatedData:
        """All clients, none of whose examples is there: those of client 0 stand in."""
        x, y = _examples(self, jnp.zeros(1, jnp.int32))
        return FederatedData(
            x,
            y,
            order=jnp.arange(self.largest),
            offset=jnp.zeros(self.clients, jnp.int32),
            size=jnp.asarray(self.size, jnp.int32),
            largest=self.largest,
            given_mass=jnp.asarray(self.size, jnp.int32),
        )

    @cached_property
    def stores(self) -> dict[str, FederatedData]:
        """To evaluate on: clients from all over the population, and as many others."""
        count = min(self.measured, self.clients)
        some = np.linspace(0, self.clients - 1, count).astype(np.int32)
        others = self.clients + np.arange(self.measured, dtype=np.int32)
        sizes = {"train": self.size[some], "test": np.full(len(others), self.largest)}
        return {
            name: self._store(ids, sizes[name])
            for name, ids in (("train", some), ("test", others))
        }

    def of(self, data: FederatedData, ids: np.ndarray, width: int) -> FederatedData:
        """`data` with the examples of clients `ids`, and room for `width` clients."""
        # Those that fill it up are copies, behind the last client's number as owners.
        padded = np.pad(ids, (0, width - len(ids)), constant_values=self.clients)
        found = _working(self, jnp.asarray(padded, jnp.int32))
        return dataclasses.replace(data, **found)

    def _store(self, ids: np.ndarray, size: np.ndarray) -> FederatedData:
        x, y = _examples(self, jnp.asarray(ids))
        real = np.arange(self.largest) < size[:, None]
        offset = np.cumsum(size) - size
        return FederatedData(
            x,
            y,
            order=jnp.asarray(np.flatnonzero(real), jnp.int32),
            offset=jnp.asarray(offset, jnp.int32),
            size=jnp.asarray(size, jnp.int32),
            largest=self.largest,
        )


def generated(
    clients: int,
    size: ArrayLike,
    generate: Generate,
    *,
    seed: int = 0,
    measured: int = 100,
) -> Generated:
    """A population of which nothing is stored, for `Experiment(dataset=...)`.

    `generate(client, key)` gives the examples x, y of one client from its number and a
    key of its own (of `seed` and the client): a function that JAX can trace. `size` is
    how many they are, or one number per client; then `generate` makes as many as the
    largest client has, and the first count. Evaluations are on `measured` clients from
    all over the population (`train`) and on as many that no round knows (`test`), whose
    numbers come behind the last.
    """
    if isinstance(clients, bool) or not isinstance(clients, int) or clients < 2:
        raise ValueError(f"clients must be an integer of at least 2: got {clients!r}")
    sizes = np.asarray(size)
    if sizes.ndim == 0:
        sizes = np.full(clients, size)
    checked_mass(sizes, clients, "size")
    if measured < 1:
        raise ValueError(f"measured must be at least 1: got {measured}")
    if seed < 0:
        raise ValueError(f"seed must not be negative: got {seed}")
    made = Generated(clients, sizes.astype(np.int32), generate, seed, measured)
    _check(made)
    return made


def _check(made: Generated) -> None:
    """Raise a ValueError unless a client's examples are what they must be."""
    x, y = jax.eval_shape(lambda ids: _one_each(made, ids), jnp.zeros(1, jnp.int32))
    for leaf in jax.tree.leaves((x, y)):
        if leaf.ndim < 2 or leaf.shape[1] != made.largest:
            raise ValueError(
                f"generate must give x and y with {made.largest} examples each, as "
                f"size says: got the shape {leaf.shape[1:]}"
            )


def _one_each(made: Generated, ids: jax.Array) -> Examples:
    key = jax.random.key(made.seed)
    return jax.vmap(lambda i: made.generate(i, jax.random.fold_in(key, i)))(ids)


@partial(jax.jit, static_argnums=0)
def _examples(made: Generated, ids: jax.Array) -> Examples:
    """The examples of clients, one client's after another's."""
    found = _one_each(made, ids)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)


@partial(jax.jit, static_argnums=0)
def _working(made: Generated, ids: jax.Array) -> dict[str, PyTree]:
    """What of the data of all clients is replaced where only `ids` have examples."""
    x, y = _examples(made, ids)
    first = made.largest * jnp.arange(len(ids), dtype=jnp.int32)
    nowhere = jnp.zeros(made.clients, jnp.int32)
    return {
        "x": x,
        "y": y,
        "order": jnp.arange(len(ids) * made.largest, dtype=jnp.int32),
        "offset": nowhere.at[ids].set(first, mode="drop"),
    }
