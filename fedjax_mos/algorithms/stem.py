"""STEM: stochastic two-sided momentum.

Khanduri et al., NeurIPS 2021 [khanduri2021stem].

Server and clients continue one STORM sequence. With (x, d) received, client i starts
from y_1 = x - lr d, d_0 = d, y_0 = x, and for k = 1..K

    d_k     = g(y_k; b) + (1 - a) (d_{k-1} - g(y_{k-1}; b))
    y_{k+1} = y_k - lr d_k                           (the last one is not taken)
    send      y_K - x,  d_K

Server:   x <- x + mean_i (y_K - x),   d <- mean_i d_K

The first d is the mean of full local gradients at x_0: round 0 is that exchange, in
which nobody moves. With `own_init` every client of round 0 starts from its own full
gradient instead. A direction of zero means that none exists yet, which saves a flag;
zeros do not travel: in round 0 only x down and the gradient up (own_init: both trees
up). The paper has full participation; here a cohort stands for all. Under a decay per
epoch a move takes the rate of the batch that made its direction.

    paper   a       eta
    here    storm   lr
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.client.tools import local_scan, num_steps, step_at
from fedjax_mos.components import cite
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    ClientView,
    Exchange,
    Key,
    LocalWork,
    Metrics,
    Params,
    Positive,
    Step,
    Unit,
)


class Server(NamedTuple):
    params: Params
    direction: Params  # d


class Message(NamedTuple):
    """Down: x and d. Up: y_K - x and d_K."""

    model: Params
    direction: Params


@cite("khanduri2021stem")
def stem(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    storm: Unit = 0.1,
    own_init: bool = False,
) -> Algorithm:
    """STEM. No client state; two trees up, two down; 2 K gradient evaluations."""

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        return Server(params, optax.tree.zeros_like(params)), ()

    def client(
        down: Message, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Message, tuple, Metrics]:
        plan = local.plan(view, key)
        x = down.model
        first = _is_zero(down.direction)
        # Unbatched within a run, so later rounds really skip it.
        value, full = jax.lax.cond(
            first,
            lambda: local.full_gradient(x, view, key),
            lambda: (jnp.zeros((), tree.float_dtype(x)), optax.tree.zeros_like(x)),
        )
        d = optax.tree.add(down.direction, full)

        def step(
            carry: tuple[Params, Params, Params], now: Step
        ) -> tuple[tuple[Params, Params, Params], jax.Array]:
            y_prev, y, d = carry
            value, g = local.gradient(y, now)
            _, stale = local.gradient(y_prev, now)
            d = jax.tree.map(lambda g, d, s: g + (1 - storm) * (d - s), g, d, stale)
            return (y, local.descend(y, d, lr, now), d), value

        start = (x, local.descend(x, d, lr, step_at(plan, 0, view)), d)
        (y, _, d_last), values = local_scan(step, start, view, plan)
        sent = Message(optax.tree.sub(y, x), d_last)
        loss = values.sum() / num_steps(plan)
        if not own_init:
            still = Message(optax.tree.zeros_like(x), full)
            sent = optax.tree.where(first, still, sent)
            loss = jnp.where(first, value, loss)
        return sent, mine, {"loss": loss}

    def server(state: Server, agg: Aggregate) -> Server:
        return Server(optax.tree.add(state.params, agg.mean.model), agg.mean.direction)

    def broadcast(state: Server) -> Message:
        return Message(state.params, state.direction)

    def travels(state: Server) -> tuple[Message, Message]:
        first = _is_zero(state.direction)
        return Message(True, ~first), Message(True if own_init else ~first, True)

    return Algorithm(init, (Exchange(broadcast, client, server, travels),))


def _is_zero(direction: Params) -> jax.Array:
    return optax.tree.vdot(direction, direction) == 0
