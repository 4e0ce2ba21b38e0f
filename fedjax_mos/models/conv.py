"""Convolution and max-pooling that stay fast under a client axis and inside a loop.

Clients have their own weights, so `vmap` turns a convolution into a grouped one, for
which XLA has only a slow path on CPU (and inside `lax.scan` even without groups): 14 to
35 times slower than the matrix products below. Only slices, concatenations and products
are used, so every transposition is again made of these, and forward mode works too.

The form was chosen by measuring forward + backward, batch 10 (benchmarks/NOTES.md).
Patches along the width with a sum of products over the height beat full patches by up
to 1.8 times, or tie. On images the inner products of that form would be too short: with
1 or 3 channels full patches are mostly faster, by up to 2.2 times.

On accelerators the compilers' own convolutions move least (docs/accelerators.md):
patches of few channels are padded to 128 lanes on a TPU, and more kernels on a GPU.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from fedjax_mos.models.products import matmul
from fedjax_mos.target import platform

_NHWC = ("NHWC", "HWIO", "NHWC")
_FEW_CHANNELS = 4


def convolution(
    lhs: jax.Array,
    rhs: jax.Array,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    **options: Any,
) -> jax.Array:
    """`lax.conv_general_dilated` by the faster route for its platform.

    Matrix products on CPU, `lax` elsewhere. It takes the same
    arguments, hence also fits `nn.Conv(..., conv_general_dilated=convolution)`.
    Layouts other than NHWC, groups and dilation always go to `lax`.
    """
    if platform() == "cpu" and _is_plain(lhs, rhs, **options):
        precision = options.get("precision")
        return matmul_convolution(lhs, rhs, window_strides, padding, precision)
    return lax.conv_general_dilated(lhs, rhs, window_strides, padding, **options)


def matmul_convolution(
    x: jax.Array,
    kernel: jax.Array,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    precision: Any = None,
) -> jax.Array:
    """Convolve x [B, H, W, C] with kernel [h, w, C, F] by matrix products.

    y[b, p, q] = sum_i patch[b, s p + i, q] @ kernel[i], where patch[b, r, q] holds the
    w C inputs of row r under the window of column q.
    """
    height, width, channels, features = kernel.shape
    window = (height, width)
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(x.shape[1:3], window, strides, padding)
    edges = [(0, 0, 0), *((low, high, 0) for low, high in padding), (0, 0, 0)]
    x = lax.pad(x, jnp.zeros((), x.dtype), edges)
    if x.shape[1] < height or x.shape[2] < width:
        raise ValueError(f"kernel {window} is larger than padded input {x.shape[1:3]}")

    patch = jnp.concatenate(_windows(x, 2, width, strides[1]), axis=-1)
    rows = _windows(patch, 1, height, strides[0])
    if channels <= _FEW_CHANNELS:
        weight = kernel.reshape(-1, features)
        return matmul(jnp.concatenate(rows, axis=-1), weight, precision)
    weights = kernel.reshape(height, width * channels, features)
    products = (matmul(rows[i], weights[i], precision) for i in range(height))
    return functools.reduce(jnp.add, products)


def max_pool(
    x: jax.Array, window: int = 2, stride: int | None = None, padding: int = 0
) -> jax.Array:
    """Maximum over square windows of x [B, H, W, C], as PyTorch's `MaxPool2d`.

    The stride defaults to the window and incomplete windows are dropped. Equal maxima
    share the gradient (on a TPU, as in PyTorch, the first one has it); the shares add
    up to one.
    """
    stride = window if stride is None else stride
    edge = (padding, padding, 0)
    if platform() == "tpu":
        # Strided slices are copies there: a step of a small network moved 4.3 GB with
        # them and moves 1.8 GB with windows (docs/accelerators.md).
        sizes = (1, window, window, 1), (1, stride, stride, 1)
        edges = [(0, 0), edge[:2], edge[:2], (0, 0)]
        return lax.reduce_window(x, -jnp.inf, lax.max, *sizes, edges)
    x = lax.pad(x, jnp.array(-jnp.inf, x.dtype), [(0, 0, 0), edge, edge, (0, 0, 0)])
    for axis in (1, 2):  # a maximum over a square is one over rows, then columns
        x = functools.reduce(jnp.maximum, _windows(x, axis, window, stride))
    return x


def _windows(x: jax.Array, axis: int, size: int, stride: int) -> list[jax.Array]:
    """For i < size: the i-th element of every window along `axis`."""
    span = (x.shape[axis] - size) // stride * stride + 1
    return [lax.slice_in_dim(x, i, i + span, stride, axis) for i in range(size)]


def _is_plain(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    **other: Any,
) -> bool:
    """Whether these options of `lax.conv_general_dilated` ask for nothing special."""
    if lhs.ndim != 4 or any(value is not None for value in other.values()):
        return False
    if feature_group_count != 1 or batch_group_count != 1:
        return False
    if any(d != 1 for d in (*(lhs_dilation or ()), *(rhs_dilation or ()))):
        return False
    shapes = lhs.shape, rhs.shape
    asked = lax.conv_dimension_numbers(*shapes, dimension_numbers)
    return asked == lax.conv_dimension_numbers(*shapes, _NHWC)
