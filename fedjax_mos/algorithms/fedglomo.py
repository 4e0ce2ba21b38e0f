"""FedGLOMO and FedLOMO: global and local momentum.

Das et al., UAI 2022 [das2022fedglomo].

Client i runs from x_t, and FedGLOMO with the same batches also from x_{t-1}:

    d_0 = grad f_i(start) over all local data
    d_k = g(y_k; b) + d_{k-1} - g(y_{k-1}; b),   y_{k+1} = y_k - lr d_k
    G_i = x_t - y_K,   G^_i = x_{t-1} - y^_K
    send  G_i,  G_i - G^_i            (FedLOMO: G_i only)

Server:   u <- beta mean_i G_i + (1 - beta) (u + mean_i (G_i - G^_i)),   x <- x - u
          round 0: u = mean_i G_i                   (FedLOMO: beta = 1)

In round 0 both starting points are x_0 and the second tree is zero; it is counted.

    paper   beta_k
    here    mix
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.client.tools import local_scan, num_steps, step_at, tail
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
    Scalar,
    Step,
    Unit,
)


class Server(NamedTuple):
    params: Params
    previous: Params  # x_{t-1}
    update: Params  # u
    started: jax.Array


class Down(NamedTuple):
    model: Params
    previous: Params


class Up(NamedTuple):
    displacement: Params  # G_i
    change: Params  # G_i - G^_i


@cite("das2022fedglomo")
def fedglomo(local: LocalWork, *, lr: Positive = 0.1, mix: Unit = 0.3) -> Algorithm:
    """FedGLOMO. No client state; 2 trees up, 2 down; 4 (K - 1) + 2 full gradients."""

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        zeros = optax.tree.zeros_like(params)
        return Server(params, params, zeros, jnp.zeros((), bool)), ()

    def client(
        down: Down, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Up, tuple, Metrics]:
        moved, metrics = _displacement(local, down.model, view, key, lr)
        before, _ = _displacement(local, down.previous, view, key, lr)
        return Up(moved, optax.tree.sub(moved, before)), mine, metrics

    def server(state: Server, agg: Aggregate) -> Server:
        u = jax.tree.map(
            lambda u, g, change: jnp.where(
                state.started, mix * g + (1 - mix) * (u + change), g
            ),
            state.update,
            *agg.mean,
        )
        x = optax.tree.sub(state.params, u)
        return Server(x, state.params, u, jnp.ones((), bool))

    def broadcast(state: Server) -> Down:
        return Down(state.params, state.previous)

    return Algorithm(init, (Exchange(broadcast, client, server),))


class LomoServer(NamedTuple):
    params: Params


@cite("das2022fedglomo")
def fedlomo(local: LocalWork, *, lr: Positive = 0.1) -> Algorithm:
    """FedLOMO. No client state; one tree up, one down; 2 (K - 1) + full gradients."""

    def client(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        moved, metrics = _displacement(local, x, view, key, lr)
        return moved, mine, metrics

    def server(state: LomoServer, agg: Aggregate) -> LomoServer:
        return LomoServer(optax.tree.sub(state.params, agg.mean))

    exchange = Exchange(lambda s: s.params, client, server)
    return Algorithm(lambda params, key: (LomoServer(params), ()), (exchange,))


def _displacement(
    local: LocalWork, x: Params, view: ClientView, key: Key, lr: Scalar
) -> tuple[Params, Metrics]:
    """x - y_K of the local recursion from x."""
    plan = local.plan(view, key)
    value, d = local.full_gradient(x, view, key)
    first = step_at(plan, 0, view)

    def step(
        carry: tuple[Params, Params, Params], now: Step
    ) -> tuple[tuple[Params, Params, Params], jax.Array]:
        y_prev, y, d = carry
        value, g = local.gradient(y, now)
        _, stale = local.gradient(y_prev, now)
        d = jax.tree.map(lambda g, d, s: g + d - s, g, d, stale)
        return (y, local.descend(y, d, lr, now), d), value

    start = (x, local.descend(x, d, lr, first), d)
    (_, y, _), values = local_scan(step, start, view, tail(plan))
    loss = (value + values.sum()) / num_steps(plan)
    return optax.tree.sub(x, y), {"loss": loss}
