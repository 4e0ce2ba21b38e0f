"""Random image transforms: `(batch, key) -> batch`, every image with its own draw.

Images are NHWC of any dtype and keep it. New pixels are zero, so apply these to raw
bytes, before they are normalised. The transform of the released code of Kim, Kim and
Han, CVPR 2024 [kim2024fedacg], is `chain(rotate(10), pad_crop(4), flip())`.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from typing_extensions import TypeAliasType

from fedjax_mos.types import Batch, Key

#: (batch, key) -> the batch, changed.
Augmentation = TypeAliasType("Augmentation", Callable[[Batch, Key], Batch])


def rotate(degrees: float) -> Augmentation:
    """Turn each image about its centre by an angle uniform in [-degrees, degrees].

    Nearest neighbour, zero fill, the size is kept.
    """
    if not 0 <= degrees <= 180:
        raise ValueError(f"degrees must be between 0 and 180: got {degrees}")

    def augment(batch: Batch, key: Key) -> Batch:
        x = _images(batch)
        angle = jax.random.uniform(key, x.shape[:1], minval=-1, maxval=1) * degrees
        return batch._replace(x=jax.vmap(_turn)(x, jnp.deg2rad(angle)))

    return augment


def pad_crop(padding: int) -> Augmentation:
    """Pad each image by zeros on all sides and cut a random window of its old size."""
    if not isinstance(padding, int) or padding < 0:
        raise ValueError(f"padding must be a non-negative integer: got {padding}")

    def augment(batch: Batch, key: Key) -> Batch:
        x = _images(batch)
        border = (padding, padding)
        padded = jnp.pad(x, ((0, 0), border, border, (0, 0)))
        corner = jax.random.randint(key, (len(x), 2), 0, 2 * padding + 1)

        def window(image: jax.Array, at: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(image, (at[0], at[1], 0), x.shape[1:])

        return batch._replace(x=jax.vmap(window)(padded, corner))

    return augment


def flip(probability: float = 0.5) -> Augmentation:
    """Mirror each image left to right with the given probability.

    >>> batch = Batch(jnp.arange(3).reshape(1, 1, 3, 1), jnp.zeros(1), jnp.ones(1))
    >>> flip(1.0)(batch, jax.random.key(0)).x.ravel().tolist()
    [2, 1, 0]
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must be between 0 and 1: got {probability}")

    def augment(batch: Batch, key: Key) -> Batch:
        x = _images(batch)
        mirrored = jax.random.bernoulli(key, probability, (len(x), 1, 1, 1))
        return batch._replace(x=jnp.where(mirrored, x[:, :, ::-1], x))

    return augment


def chain(*augmentations: Augmentation) -> Augmentation:
    """One after the other, the first first, each with its own key."""

    def augment(batch: Batch, key: Key) -> Batch:
        keys = jax.random.split(key, len(augmentations))
        for augmentation, own in zip(augmentations, keys, strict=True):
            batch = augmentation(batch, own)
        return batch

    return augment


def _turn(image: jax.Array, angle: jax.Array) -> jax.Array:
    """One image [H, W, C] turned counter-clockwise by `angle` radians."""
    H, W, _ = image.shape
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    # Rows point down: output pixel (v, u) off the centre shows what was at
    # (v cos + u sin, u cos - v sin).
    v = jnp.arange(H)[:, None] - (H - 1) / 2
    u = jnp.arange(W) - (W - 1) / 2
    row = _nearest(v * cos + u * sin + (H - 1) / 2)
    column = _nearest(u * cos - v * sin + (W - 1) / 2)
    inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
    # Indices are clipped by `mode`; what lies outside is overwritten.
    source = image.at[row, column].get(mode="clip")
    return jnp.where(inside[:, :, None], source, jnp.zeros((), image.dtype))


def _nearest(position: jax.Array) -> jax.Array:
    return jnp.floor(position + 0.5).astype(int)


def _images(batch: Batch) -> jax.Array:
    shape = getattr(batch.x, "shape", None)
    if shape is None or len(shape) != 4:
        found = jax.tree.structure(batch.x) if shape is None else f"the shape {shape}"
        raise ValueError(f"x must hold images [B, H, W, C]: got {found}")
    return batch.x
