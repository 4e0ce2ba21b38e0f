"""Server optimisers that differ from optax's, as optax transforms.

Reddi et al., ICLR 2021 [reddi2021adaptive], Algorithm 2: moments without bias
correction, v_0 = eps^2, and eps outside the root:

    m <- b1 m + (1 - b1) delta,   x <- x + server_lr m / (sqrt(v) + eps)

FedAMS, Wang et al., ICML 2022 [wang2022fedams]:

    v <- b2 v + (1 - b2) delta^2,   m_0 = v_0 = v^_0 = 0
    option 1   v^ <- max(v^, v, eps),   x <- x + server_lr m / sqrt(v^)
    option 2   v^ <- max(v^, v),        x <- x + server_lr m / (sqrt(v^) + eps)
    inside     v^ <- max(v^, v),        x <- x + server_lr m / sqrt(v^ + eps)

the last as the NLA/AA paper [anonymous2024bidirectional] has option 2 (Appendix C.3).

optax's adam, yogi and amsgrad correct the bias, start v elsewhere and take the maximum
of the corrected moment.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import Params, Scalar

_TINY = 1e-30  # keeps the derivative of a root finite at zero


class Moments(NamedTuple):
    m: Params
    v: Params


class AmsMoments(NamedTuple):
    m: Params
    v: Params
    largest: Params  # v^
    steps: jax.Array


def adagrad(lr: Scalar, b1: Scalar, eps: Scalar) -> optax.GradientTransformation:
    """v <- v + delta^2."""
    return _adaptive(lr, b1, eps, lambda v, g: v + g**2)


def adam(
    lr: Scalar, b1: Scalar, b2: Scalar, eps: Scalar
) -> optax.GradientTransformation:
    """v <- b2 v + (1 - b2) delta^2."""
    return _adaptive(lr, b1, eps, lambda v, g: b2 * v + (1 - b2) * g**2)


def yogi(
    lr: Scalar, b1: Scalar, b2: Scalar, eps: Scalar
) -> optax.GradientTransformation:
    """v <- v - (1 - b2) delta^2 sign(v - delta^2)."""
    return _adaptive(lr, b1, eps, lambda v, g: v - (1 - b2) * g**2 * jnp.sign(v - g**2))


def ams(
    lr: Scalar,
    b1: Scalar,
    b2: Scalar,
    eps: Scalar,
    option: Literal[1, 2] = 1,
    bias_correction: bool = False,
    eps_inside: bool = False,
) -> optax.GradientTransformation:
    """FedAMS's server step; with `bias_correction` as its released program has it."""
    if option not in (1, 2):
        raise ValueError(f"option must be 1 or 2: got {option!r}")
    if eps_inside and option == 1:
        raise ValueError("option must be 2 for eps_inside: got 1")

    def init(params: Params) -> AmsMoments:
        zeros = optax.tree.zeros_like(params)
        return AmsMoments(zeros, zeros, zeros, jnp.zeros((), jnp.int32))

    def update(
        grads: Params, state: AmsMoments, params: Params | None = None
    ) -> tuple[Params, AmsMoments]:
        steps = state.steps + 1
        m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.m, grads)
        v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state.v, grads)
        floor = eps if option == 1 else _TINY
        largest = jax.tree.map(
            lambda old, v: jnp.maximum(jnp.maximum(old, v), floor), state.largest, v
        )
        # Release: lr / (1 - b1^t) and sqrt(v^) / sqrt(1 - b2^t).
        first, second = (
            (1 - b1**steps, jnp.sqrt(1 - b2**steps)) if bias_correction else (1, 1)
        )
        outside = 0 if option == 1 else eps

        def root(top: jax.Array) -> jax.Array:
            if eps_inside:
                return jnp.sqrt(top / second**2 + eps)
            return jnp.sqrt(top) / second + outside

        step = jax.tree.map(lambda m, top: -lr / first * m / root(top), m, largest)
        return step, AmsMoments(m, v, largest, steps)

    return optax.GradientTransformation(init, update)


def _adaptive(
    lr: Scalar,
    b1: Scalar,
    eps: Scalar,
    second: Callable[[jax.Array, jax.Array], jax.Array],
) -> optax.GradientTransformation:
    def init(params: Params) -> Moments:
        v = jax.tree.map(lambda p: jnp.full_like(p, eps**2), params)
        return Moments(optax.tree.zeros_like(params), v)

    def update(
        grads: Params, state: Moments, params: Params | None = None
    ) -> tuple[Params, Moments]:
        m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.m, grads)
        v = jax.tree.map(second, state.v, grads)
        step = jax.tree.map(lambda m, v: -lr * m / (jnp.sqrt(v + _TINY) + eps), m, v)
        return step, Moments(m, v)

    return optax.GradientTransformation(init, update)
