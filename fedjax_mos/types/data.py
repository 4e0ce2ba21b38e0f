"""Numbers, trees and examples."""

import dataclasses
import math
from typing import Annotated, Any, NamedTuple

import jax
import numpy.typing
from typing_extensions import TypeAliasType

# Aliases with a name: help() and the documentation print it and not what it means.
#: Arrays in tuples, lists, dicts or modules, however nested.
PyTree = Any
#: A model's parameters.
Params = PyTree
#: A key of `jax.random`.
Key = TypeAliasType("Key", jax.Array)
#: What NumPy makes an array of.
ArrayLike = TypeAliasType("ArrayLike", numpy.typing.ArrayLike)
#: Name -> number.
Metrics = TypeAliasType("Metrics", dict[str, jax.Array])


class Interval(NamedTuple):
    """Where a hyperparameter may lie; written into its annotation."""

    low: float  #: the lower end
    high: float  #: the upper end, allowed where it is finite
    open_low: bool = False  #: the lower end itself is not allowed


#: A float hyperparameter, possibly traced.
Scalar = TypeAliasType("Scalar", float | jax.Array)
#: Above 0.
Positive = TypeAliasType(
    "Positive", Annotated[Scalar, Interval(0, math.inf, open_low=True)]
)
#: 0 or more.
NonNegative = TypeAliasType("NonNegative", Annotated[Scalar, Interval(0, math.inf)])
#: In [0, 1].
Unit = TypeAliasType("Unit", Annotated[Scalar, Interval(0, 1)])
#: In (0, 1].
Fraction = TypeAliasType("Fraction", Annotated[Scalar, Interval(0, 1, open_low=True)])
#: A whole number of at least 1 that decides shapes; JAX counts in 32 bits.
Count = TypeAliasType("Count", Annotated[int, Interval(1, 2**31 - 1)])


class Batch(NamedTuple):
    """Rows of examples; a row whose mask is False is padding and must not count."""

    x: PyTree  #: leaves [B, ...]
    y: jax.Array  #: [B, ...]
    mask: jax.Array  #: [B] bool


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FederatedData:
    """All clients' examples: one flat store and, per client, a slice of positions."""

    x: PyTree  #: leaves [examples, ...]
    y: jax.Array  #: [examples, ...]
    order: jax.Array  #: [sum of sizes] positions in the store, client after client
    offset: jax.Array  #: [N] client i owns order[offset_i : offset_i + size_i]
    size: jax.Array  #: [N]
    #: The largest size, known to the compiler: it bounds epochs and full gradients.
    largest: int = dataclasses.field(metadata={"static": True})
    given_mass: jax.Array | None = None  #: [N] whole numbers; None: the sizes
    #: Equal parts that a layout has cut x and y into, in the order of clients.
    parts: int = dataclasses.field(default=1, metadata={"static": True})

    @property
    def mass(self) -> jax.Array:
        """[N] whole numbers that clients count with: p_i = mass_i / sum of masses."""
        return self.size if self.given_mass is None else self.given_mass

    def __repr__(self) -> str:
        """Counts and shapes; leaves may be anything, as of every tree of JAX."""
        x, y, size = jax.tree.map(
            lambda leaf: getattr(leaf, "shape", None), (self.x, self.y, self.size)
        )
        clients = size[-1] if size else None
        return f"FederatedData(clients={clients}, largest={self.largest}, x={x}, y={y})"


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ClientView:
    """What one client sees; x, y, order and round are shared, never copied."""

    x: PyTree  #: of the store: leaves [examples, ...]
    y: jax.Array  #: of the store: [examples, ...]
    order: jax.Array  #: of the store: positions, client after client
    round: jax.Array  #: the round's number, from 0
    id: jax.Array  #: the client's number, 0 to N - 1
    offset: jax.Array  #: its examples are order[offset : offset + size]
    size: jax.Array  #: number of its examples
    share: jax.Array  #: p_i = mass_i / sum of masses
    importance: jax.Array  #: N p_i
    #: the largest size of all clients
    largest: int = dataclasses.field(metadata={"static": True})
    #: equal parts that a layout has cut x and y into
    parts: int = dataclasses.field(default=1, metadata={"static": True})
