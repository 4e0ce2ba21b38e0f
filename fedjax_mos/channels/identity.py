"""A message as it is, and the price of a dense one."""

import jax
import jax.numpy as jnp

from fedjax_mos.types import Channel, PyTree, Wire

BITS_PER_NUMBER = 32


def dense(value: PyTree) -> Wire:
    """Every number of `value` sent in full, 32 bits each, whatever the dtype here."""
    numbers = sum(jnp.size(leaf) for leaf in jax.tree.leaves(value))
    bits = BITS_PER_NUMBER * numbers
    if bits >= 2**32:
        raise ValueError(
            f"a message may hold at most {2**32 // BITS_PER_NUMBER - 1} numbers: "
            f"this one has {numbers}"
        )
    return Wire(value, jnp.uint32(bits))


def identity() -> Channel:
    """A channel that delivers what it is given, at the price it was given."""
    return Channel(
        init=lambda value: (), send=lambda state, wire, key, context: (wire, state)
    )
