"""A message as it is, and the price of a dense one."""

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import Channel, PyTree, Wire

MOST_BITS = 32


def bits_per_number(dtype: jnp.dtype) -> int:
    """What a number of this type costs to send: its own bits, at most 32.

    Double precision is for checking simulations; nobody sends it.

    >>> bits_per_number(jnp.dtype("bfloat16")), bits_per_number(jnp.dtype("float64"))
    (16, 32)
    """
    return min(MOST_BITS, 8 * dtype.itemsize)


def dense(value: PyTree, travels: PyTree = True) -> Wire:
    """Every number of `value` sent in full, with the bits of its type (at most 32).

    `travels` is a tree of booleans, perhaps traced, that is a prefix of `value`'s: what
    is under a False costs nothing.

    >>> int(dense({"model": jnp.zeros(3), "copy": jnp.zeros(9)}).bits)
    384
    >>> both = {"model": jnp.zeros(3), "copy": jnp.zeros(9)}
    >>> int(dense(both, {"model": True, "copy": False}).bits)
    96
    """
    counts = jax.tree.map(lambda _, part: _bits(part), travels, value)
    pairs = list(zip(jax.tree.leaves(travels), jax.tree.leaves(counts), strict=True))
    known = [bool(f) * n for f, n in pairs if isinstance(f, bool | np.bool_)]
    traced = [(f, n) for f, n in pairs if not isinstance(f, bool | np.bool_)]
    most = sum(known) + sum(n for _, n in traced)
    if most >= 2**32:
        raise ValueError(
            f"a message must have at most {2**32 - 1} bits: got {most}, as many as "
            f"{most // MOST_BITS} numbers of {MOST_BITS} bits"
        )
    bits = jnp.uint32(sum(known))
    for flag, count in traced:
        bits = bits + jnp.where(flag, jnp.uint32(count), 0)
    return Wire(value, bits)


def identity() -> Channel:
    """A channel that delivers what it is given, at the price it was given."""
    return Channel(
        init=lambda value: (), send=lambda state, wire, key, context: (wire, state)
    )


def _bits(part: PyTree) -> int:
    leaves = jax.tree.leaves(part)
    return sum(
        jnp.size(leaf) * bits_per_number(jnp.result_type(leaf)) for leaf in leaves
    )
