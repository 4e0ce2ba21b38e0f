"""The client that most methods share: local steps on an objective.

With x the received model, y_0 = x and g the objective's gradient:

    y_{k+1} = y_k - lr g(y_k)
    send      y_K - x

An optax transform may take the step's place: with s its state and wd the weight decay,
(u, s) = update(g(y_k) + wd y_k, s, y_k) and y_{k+1} = y_k + u.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.client.tools import local_scan, num_steps, walk
from fedjax_mos.objectives.base import Memory, Objective
from fedjax_mos.types import (
    ClientView,
    ClientWork,
    Gradient,
    Key,
    LocalWork,
    Metrics,
    Mine,
    Params,
    Scalar,
    Step,
)

# Whether a client's optimiser starts anew every round or goes on where it was.
ClientState = Literal["reset", "kept"]


class Kept(NamedTuple):
    """The own state of a client whose optimiser goes on."""

    memory: Memory | tuple[()]  # the objective's
    optimizer: optax.OptState


def sgd_client(
    local: LocalWork,
    objective: Objective,
    lr: Scalar,
    optimizer: optax.GradientTransformation | None = None,
    client_state: ClientState = "reset",
) -> tuple[Callable[[Params], Mine], ClientWork]:
    """Local steps on `objective`: (a client's first own state, its work).

    The own state is the objective's memory, () if it has none; with an optimiser that
    is kept, a `Kept`.
    """
    if client_state not in ("reset", "kept"):
        raise ValueError(
            f"client_state must be 'reset' or 'kept': got {client_state!r}"
        )

    def start(params: Params) -> Mine:
        memory: Memory | tuple[()] = ()
        if objective.keeps_model:
            memory = Memory(optax.tree.zeros_like(params), jnp.zeros((), bool))
        if optimizer is None or client_state == "reset":
            return memory
        return Kept(memory, optimizer.init(params))

    def client(
        x: Params, mine: Mine, view: ClientView, key: Key
    ) -> tuple[Params, Mine, Metrics]:
        kept = isinstance(mine, Kept)
        memory = mine.memory if kept else mine
        gradient = local.gradient_of(objective.build(local, x, memory, view))
        if optimizer is None:
            y, _, metrics = walk(local, gradient, x, view, key, lr)
        else:
            s = mine.optimizer if kept else optimizer.init(x)
            y, s, metrics = _optimised(local, optimizer, gradient, x, s, view, key)
        if objective.keeps_model:
            memory = Memory(y, jnp.ones((), bool))
        return optax.tree.sub(y, x), Kept(memory, s) if kept else memory, metrics

    return start, client


def _optimised(
    local: LocalWork,
    optimizer: optax.GradientTransformation,
    gradient: Gradient,
    x: Params,
    s: optax.OptState,
    view: ClientView,
    key: Key,
) -> tuple[Params, optax.OptState, Metrics]:
    """Steps of an optax transform from x and its state s."""
    plan = local.plan(view, key)

    def step(
        carry: tuple[Params, optax.OptState], now: Step
    ) -> tuple[tuple[Params, optax.OptState], jax.Array]:
        y, s = carry
        value, g = gradient(y, now)
        u, s = optimizer.update(local.decayed(g, y), s, y)
        # `move` goes against its direction, at epoch_decay**epoch * scale.
        return (local.move(y, optax.tree.scale(-1, u), 1.0, now), s), value

    (y, s), values = local_scan(step, (x, s), view, plan)
    return y, s, {"loss": values.sum() / num_steps(plan)}
