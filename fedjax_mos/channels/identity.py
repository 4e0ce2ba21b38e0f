"""A message as it is, and the price of a dense one."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import Channel, PyTree, Wire

BITS_PER_NUMBER = 32


def dense(value: PyTree, travels: PyTree = True) -> Wire:
    """Every number of `value` sent in full, 32 bits each, whatever the dtype here.

    `travels` is a tree of booleans, perhaps traced, that is a prefix of `value`'s: what
    is under a False costs nothing.

    >>> int(dense({"model": jnp.zeros(3), "copy": jnp.zeros(9)}).bits)
    384
    >>> both = {"model": jnp.zeros(3), "copy": jnp.zeros(9)}
    >>> int(dense(both, {"model": True, "copy": False}).bits)
    96
    """
    counts = jax.tree.map(lambda _, part: _numbers(part), travels, value)
    pairs = list(zip(jax.tree.leaves(travels), jax.tree.leaves(counts), strict=True))
    known = [bool(f) * n for f, n in pairs if isinstance(f, bool | np.bool_)]
    traced = [(f, n) for f, n in pairs if not isinstance(f, bool | np.bool_)]
    numbers = sum(known) + sum(n for _, n in traced)
    if BITS_PER_NUMBER * numbers >= 2**32:
        raise ValueError(
            f"a message must hold at most {2**32 // BITS_PER_NUMBER - 1} numbers: "
            f"got {numbers}"
        )
    bits = jnp.uint32(BITS_PER_NUMBER * sum(known))
    for flag, count in traced:
        bits = bits + jnp.where(flag, jnp.uint32(BITS_PER_NUMBER * count), 0)
    return Wire(value, bits)


def identity() -> Channel:
    """A channel that delivers what it is given, at the price it was given."""
    return Channel(
        init=lambda value: (), send=lambda state, wire, key, context: (wire, state)
    )


def _numbers(part: PyTree) -> int:
    return sum(jnp.size(leaf) for leaf in jax.tree.leaves(part))
