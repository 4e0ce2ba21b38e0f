"""Compressors without memory: (value, key) -> Wire, with exact bits.

Stich et al., NeurIPS 2018 [stich2018sparsified] (top-k, random-k); Karimireddy et al.,
ICML 2019 [karimireddy2019ef] (scaled sign); Alistarh et al., NeurIPS 2017
[alistarh2017qsgd] (stochastic quantisation).

They act on the whole flattened message unless `per_tensor`. Bits are given for values
of 32; one of fewer bits costs those.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from fedjax_mos.channels.identity import bits_per_number, dense
from fedjax_mos.types import Codec, Key, PyTree, Scalar, Wire

_FEW = 32  # `lax.top_k` wins where at most one entry in so many is kept
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
        index = math.ceil(math.log2(max(v.size, 2))) if packed_index else 32
        per_entry = bits_per_number(v.dtype) + index
        if v.size * per_entry >= 2**32:
            raise ValueError(
                f"top_k counts bits of at most {2**32 // per_entry} entries: "
                f"the message has {v.size}"
            )
        bits = jnp.asarray(k, jnp.uint32) * per_entry
        return jnp.where(largest(jnp.abs(v), k), v, 0), bits

    return _codec(compress, per_tensor)


def random_k(
    fraction: Scalar, *, per_tensor: bool = False, unbiased: bool = True
) -> Codec:
    """k random entries, times d / k if `unbiased`. 32 k bits and a 32-bit seed.

    Error feedback needs the plain one: the scaled one enlarges the residual.
    """

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        k, wide = _number(fraction, v.size), _at_least_32(v.dtype)
        keep = largest(jax.random.uniform(key, v.shape, wide), k)
        scale = v.size / jnp.asarray(k, wide) if unbiased else 1
        bits = bits_per_number(v.dtype) * jnp.asarray(k, jnp.uint32) + 32
        return jnp.where(keep, (scale * v).astype(v.dtype), 0), bits

    return _codec(compress, per_tensor)


def scaled_sign(*, per_tensor: bool = False) -> Codec:
    """sign(v) |v|_1 / d, with sign(0) = 0. d + 32 bits."""

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        bits = jnp.uint32(v.size + bits_per_number(v.dtype))
        return jnp.sign(v) * jnp.abs(v).mean(), bits

    return _codec(compress, per_tensor)


def quantise(bits: int, *, per_tensor: bool = False, unbiased: bool = True) -> Codec:
    """Stochastic rounding of |v| / |v|_2 to s = 2^(bits - 1) - 1 levels.

    bits d + 32 bits: a sign and a level each, and the norm. Unbiased with a variance of
    at most w |v|^2, w = min(d / s^2, sqrt(d) / s); otherwise divided by 1 + w, which
    makes it a contraction, as error feedback needs.
    """
    if not 2 <= bits <= 16:
        raise ValueError(f"bits must lie in [2, 16]: got {bits}")
    levels = 2 ** (bits - 1) - 1

    def compress(v: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
        sent = v.dtype
        v = v.astype(_at_least_32(sent))
        top = jnp.maximum(jnp.abs(v).max(), _TINY)  # squares of v / top cannot overflow
        norm = jnp.sqrt(((v / top) ** 2).sum() + _TINY)
        level = jnp.abs(v / top) / norm * levels
        rounded = jnp.floor(level + jax.random.uniform(key, v.shape, v.dtype))
        out = jnp.sign(v) * (rounded / levels * norm) * top
        variance = min(v.size / levels**2, math.sqrt(v.size) / levels)
        scale = 1 if unbiased else 1 / (1 + variance)
        cost = jnp.uint32(bits * v.size + bits_per_number(sent))
        return (scale * out).astype(sent), cost

    return _codec(compress, per_tensor)


def straight_through(codec: Codec) -> Codec:
    """The same messages, with the derivative of a message sent as it is.

    Bengio et al., 2013 [bengio2013estimating]. What is delivered stays the same.
    """

    def through(value: PyTree, key: Key) -> Wire:
        wire = jax.lax.stop_gradient(codec(value, key))
        # v - v is zero, its derivative is one.
        sent = jax.tree.map(
            lambda out, v: out + (v - jax.lax.stop_gradient(v)), wire.value, value
        )
        return wire._replace(value=sent)

    return through


def largest(magnitude: jax.Array, k: jax.Array | int) -> jax.Array:
    """A mask of exactly the k largest entries of a non-negative vector, ties in order.

    Non-negative floats are ordered like their bit patterns, so the k-th largest is
    found by bisecting those: one pass over the vector per bit, no sort, and k may be
    traced. Where k is a number known beforehand, and small, `lax.top_k` is faster
    (benchmarks/NOTES.md).
    """
    if isinstance(k, int) and _FEW * k <= magnitude.size:
        chosen = jax.lax.top_k(magnitude, k)[1]
        return jnp.zeros(magnitude.size, bool).at[chosen].set(True)
    width = magnitude.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{width}")
    pattern = jax.lax.bitcast_convert_type(magnitude, unsigned)

    def bisect(i: jax.Array, threshold: jax.Array) -> jax.Array:
        # Set the next bit if k entries still reach the threshold.
        bit = jnp.asarray(1, unsigned) << jnp.asarray(width - 1 - i, unsigned)
        enough = (pattern >= (threshold | bit)).sum() >= k
        return jnp.where(enough, threshold | bit, threshold)

    kth = jax.lax.fori_loop(0, width, bisect, jnp.zeros((), unsigned))
    above = pattern > kth
    tied = pattern == kth
    room = k - above.sum()
    return above | (tied & (jnp.cumsum(tied) <= room))


def _number(fraction: Scalar, size: int) -> jax.Array | int:
    """max(floor(fraction size), 1), where a product just off a whole number is one.

    An int if `fraction` is a Python number, not a leaf of the state.
    """
    if isinstance(fraction, float | int):
        exact = fraction * size
        close = abs(exact - round(exact)) <= max(1e-4, 2**-23 * exact)
        return min(max(round(exact) if close else math.floor(exact), 1), size)
    product = jnp.asarray(fraction * size)
    whole = jnp.round(product)
    near = jnp.abs(product - whole) <= jnp.maximum(1e-4, 2**-23 * product)
    k = jnp.where(near, whole, jnp.floor(product)).astype(jnp.uint32)
    return jnp.clip(k, 1, size)


def _at_least_32(dtype: jnp.dtype) -> jnp.dtype:
    """What is drawn and counted in: half a type's digits make ties of draws."""
    return jnp.promote_types(dtype, jnp.float32)


def _codec(
    compress: Callable[[jax.Array, Key], tuple[jax.Array, jax.Array]], per_tensor: bool
) -> Codec:
    """A compressor of vectors as one of messages; single numbers travel as they are."""

    def codec(value: PyTree, key: Key) -> Wire:
        leaves, tree = jax.tree.flatten(value)
        numbers = [jnp.ndim(leaf) == 0 for leaf in leaves]
        tensors = [leaf for leaf, n in zip(leaves, numbers, strict=True) if not n]
        parts = [[tensor] for tensor in tensors] if per_tensor else [tensors]
        single = [leaf for leaf, n in zip(leaves, numbers, strict=True) if n]
        done, bits = [], dense(single).bits
        for part, k in zip(parts, jax.random.split(key, len(parts)), strict=True):
            flat, unravel = ravel_pytree(part)
            out, cost = compress(flat, k)
            done += unravel(out)
            bits = bits + cost
        rest = iter(done)
        outs = [x if n else next(rest) for x, n in zip(leaves, numbers, strict=True)]
        return Wire(jax.tree.unflatten(tree, outs), bits)

    return codec
