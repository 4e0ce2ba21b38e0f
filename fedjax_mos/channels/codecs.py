"""Compressors without memory: (value, key) -> Wire, with exact bits.

Stich et al., "Sparsified SGD with Memory", NeurIPS 2018 (top-k, random-k); Karimireddy
et al., "Error Feedback Fixes SignSGD", ICML 2019 (scaled sign); Alistarh et al., "QSGD:
Communication-Efficient SGD via Gradient Quantization and Encoding", NeurIPS 2017.

They act on the whole flattened message unless `per_tensor`.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedjax_mos.types import Codec, Key, PyTree, Scalar, Wire

_TINY = 1e-30  # keeps the derivative of a norm finite at zero


def top_k(
    fraction: Scalar, *, per_tensor: bool = False, packed_index: bool = False
) -> Codec:
    """The k = max(floor(fraction d), 1) entries of largest magnitude.

    64 k bits, a value and an index each; with `packed_index` an index takes
    ceil(log2 d) bits. `fraction` may be traced. Equal magnitudes go by position.
    """

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        k = _number(fraction, v.size)
        per_entry = 32 + (math.ceil(math.log2(max(v.size, 2))) if packed_index else 32)
        return jnp.where(largest(jnp.abs(v), k), v, 0), k * jnp.uint32(per_entry)

    return _codec(compress, per_tensor)


def random_k(fraction: Scalar, *, per_tensor: bool = False) -> Codec:
    """k random entries times d / k, unbiased. 32 k bits and a 32-bit seed."""

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        k = _number(fraction, v.size)
        keep = largest(jax.random.uniform(key, v.shape, v.dtype), k)
        scale = v.size / k.astype(v.dtype)
        return jnp.where(keep, scale * v, 0), 32 * k + 32

    return _codec(compress, per_tensor)


def scaled_sign(*, per_tensor: bool = False) -> Codec:
    """sign(v) |v|_1 / d, with sign(0) = 0. d + 32 bits."""

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        return jnp.sign(v) * jnp.abs(v).mean(), jnp.uint32(v.size + 32)

    return _codec(compress, per_tensor)


def quantise(bits: int, *, per_tensor: bool = False) -> Codec:
    """Stochastic rounding of |v| / |v|_2 to 2^(bits - 1) - 1 levels, unbiased.

    bits d + 32 bits: a sign and a level each, and the norm.
    """
    if not 2 <= bits <= 16:
        raise ValueError(f"bits must lie in [2, 16]: got {bits}")
    levels = 2 ** (bits - 1) - 1

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        norm = jnp.sqrt((v**2).sum() + _TINY)
        level = jnp.abs(v) / norm * levels
        rounded = jnp.floor(level + jax.random.uniform(key, v.shape, v.dtype))
        return jnp.sign(v) * norm * rounded / levels, jnp.uint32(bits * v.size + 32)

    return _codec(compress, per_tensor)


def largest(magnitude: jax.Array, k: jax.Array) -> jax.Array:
    """A mask of exactly the k largest entries of a non-negative vector.

    Non-negative floats are ordered like their bit patterns, so the k-th largest is
    found by bisecting those: one pass over the vector per bit, no sort, and k may be
    traced.
    """
    width = magnitude.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{width}")
    pattern = jax.lax.bitcast_convert_type(magnitude, unsigned)

    def bisect(i: jax.Array, threshold: jax.Array) -> jax.Array:
        # Set the next bit if k entries still reach the threshold.
        bit = jnp.asarray(1, unsigned) << (width - 1 - i).astype(unsigned)
        enough = (pattern >= (threshold | bit)).sum() >= k
        return jnp.where(enough, threshold | bit, threshold)

    kth = jax.lax.fori_loop(0, width, bisect, jnp.zeros((), unsigned))
    above = pattern > kth
    tied = pattern == kth
    room = k - above.sum()
    return above | (tied & (jnp.cumsum(tied) <= room))


def _number(fraction: Scalar, size: int) -> jax.Array:
    """max(floor(fraction size), 1); the small excess absorbs a rounded-down product."""
    k = jnp.floor(fraction * size + 1e-4).astype(jnp.uint32)
    return jnp.clip(k, 1, size)


def _codec(
    compress: Callable[[jax.Array, Key], tuple[jax.Array, jax.Array]], per_tensor: bool
) -> Codec:
    """A compressor of vectors as one of messages."""

    def whole(value: PyTree, key: Key) -> Wire:
        flat, unravel = ravel_pytree(value)
        out, bits = compress(flat, key)
        return Wire(unravel(out), bits)

    def each(value: PyTree, key: Key) -> Wire:
        leaves, tree = jax.tree.flatten(value)
        keys = jax.random.split(key, len(leaves))
        done = [
            compress(leaf.reshape(-1), k) for leaf, k in zip(leaves, keys, strict=True)
        ]
        outs = [out.reshape(x.shape) for (out, _), x in zip(done, leaves, strict=True)]
        total = sum((bits for _, bits in done), jnp.uint32(0))
        return Wire(jax.tree.unflatten(tree, outs), total)

    return each if per_tensor else whole
