"""Matrix products with fast gradients.

The gradient of a kernel, x^T c for a cotangent c, contracts the rows of both factors.
XLA's good routine for products on CPU does not take that, but it does take the same
with the transpose written out before. The barrier keeps XLA from folding the transpose
into the product again (benchmarks/NOTES.md).
"""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

from fedjax_mos.target import platform, products


def matmul(x: jax.Array, kernel: jax.Array, precision: Any = None) -> jax.Array:
    """x [..., n] @ kernel [n, features], by the route for the platform it is for."""
    if platform() != "cpu":
        return jnp.matmul(x, kernel, precision=precision)
    # Asked for here: the products of its tangent may be traced elsewhere.
    precision = precision or products()
    *outer, inputs = x.shape
    rows = x.reshape(math.prod(outer), inputs)
    return _matmul(rows, kernel, precision).reshape(*outer, kernel.shape[1])


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _matmul(x: jax.Array, kernel: jax.Array, precision: Any) -> jax.Array:
    return lax.dot(x, kernel, precision=precision)


def _tangent(precision: Any, primals: tuple, tangents: tuple) -> tuple:
    """d(x K) = dx K + x dK, the second one such that its transpose is fast."""
    (x, kernel), (dx, dkernel) = primals, tangents
    out, parts = _matmul(x, kernel, precision), []
    if not isinstance(dx, SymbolicZero):
        parts.append(_matmul(dx, kernel, precision))
    if not isinstance(dkernel, SymbolicZero):
        parts.append(_by_kernel(x, dkernel, precision))
    return out, sum(parts[1:], parts[0])


_matmul.defjvp(_tangent, symbolic_zeros=True)


def _by_kernel(x: jax.Array, kernel: jax.Array, precision: Any) -> jax.Array:
    """x @ kernel, its transpose in `kernel` by the route that writes little.

    With n rows, a inputs and b features (c^T x)^T writes two more transposes, of b n
    and b a numbers, and x^T c one of n a. The first gains most as long as that is not
    more (1.25 is a fit), the second while x is smaller than the kernel.
    """
    (rows, inputs), features = x.shape, kernel.shape[1]
    if features * (rows + inputs) <= 1.25 * rows * inputs:
        over = (((1,), (1,)), ((), ()))
        flipped = lax.dot_general(_written(kernel.T), x, over, precision=precision)
        return _written(flipped).T
    if rows <= features:
        over = (((0,), (0,)), ((), ()))
        return lax.dot_general(_written(x.T), kernel, over, precision=precision)
    return lax.dot(x, kernel, precision=precision)


_written = lax.optimization_barrier
