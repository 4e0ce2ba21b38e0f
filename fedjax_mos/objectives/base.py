"""What a client minimises, apart from how: objectives and sums of terms.

An `Objective` says what a client minimises, given the model it received. Methods that
change the local loss are sums of terms, and any objective goes with any server.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import (
    Batch,
    ClientView,
    Forward,
    Key,
    LocalWork,
    Loss,
    NonNegative,
    Params,
    Scalar,
)


class Memory(NamedTuple):
    """A client's last local model."""

    model: Params
    met: jax.Array  # False until the client has taken part


class Objective(NamedTuple):
    """What a client minimises."""

    #: (tools, received model, memory or (), view) -> loss
    build: Callable[[LocalWork, Params, Any, ClientView], Loss]
    keeps_model: bool = False  #: whether clients keep their last local model


class TermView(NamedTuple):
    """All that a term may look at."""

    params: Params  #: the client's local model
    hidden: tuple[jax.Array, ...]  #: stage outputs: [-1] logits, [-2] features
    batch: Batch  #: the step's examples
    anchor: Params  #: the model received this round
    memory: Any  #: the client's last local model, where it is kept
    labels: jax.Array  #: [C] the client's class counts
    forward: Forward  #: the stages of the model


Term = Callable[[TermView], jax.Array]


def proximal(loss: Loss, anchor: Params, prox: Scalar) -> Loss:
    """`loss` + prox/2 |y - anchor|^2."""

    def regularised(params: Params, batch: Batch, key: Key | None) -> jax.Array:
        away = optax.tree.sub(params, anchor)
        return loss(params, batch, key) + prox / 2 * optax.tree.vdot(away, away)

    return regularised


def plain() -> Objective:
    """The client's own loss."""
    return Objective(lambda local, x, memory, view: local.loss)


def near_anchor(*, prox: NonNegative = 0.002) -> Objective:
    """The client's own loss + prox/2 |y - x|^2."""
    return Objective(lambda local, x, memory, view: proximal(local.loss, x, prox))


def shaped(terms: Sequence[Term], *, keeps_model: bool = False) -> Objective:
    """A sum of terms over the stages of the model behind `LocalWork.forward`."""

    def build(local: LocalWork, x: Params, memory: Any, view: ClientView) -> Loss:
        forward = local.forward
        if forward is None:
            raise ValueError(
                "this method looks inside the model: give local_work(forward=...), a "
                "staged model's forward"
            )

        def loss(params: Params, batch: Batch, key: Key | None) -> jax.Array:
            hidden = forward(params, batch.x, 0, key)
            labels = class_counts(view, hidden[-1].shape[-1])
            now = TermView(params, hidden, batch, x, memory, labels, forward)
            return sum((term(now) for term in terms), jnp.zeros((), hidden[-1].dtype))

        return loss

    return Objective(build, keeps_model)


def class_counts(view: ClientView, classes: int) -> jax.Array:
    """How many examples of each class the client has, [C]."""
    position = jnp.arange(view.largest)
    rows = view.order[jnp.minimum(view.offset + position, view.order.shape[0] - 1)]
    mine = (position < view.size).astype(jnp.int32)
    return jnp.zeros(classes, jnp.int32).at[view.y[rows]].add(mine)
