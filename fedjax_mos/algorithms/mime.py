"""Mime and MimeLite with momentum: the server's optimiser applied in every local step.

Karimireddy et al., NeurIPS 2021 [karimireddy2021mime].

With m the server's momentum, frozen during the round, client i and y_0 = x:

    MimeLite   d = g(y; b)
    Mime       d = g(y; b) - g(x; b) + c,   c = mean_i grad f_i(x) of this round
    y_{k+1} = y_k - lr ((1 - beta) d + beta m)
    send      y_K - x,  grad f_i(x) over all local data

Server:   x <- x + mean_i (y_K - x),   m <- beta m + (1 - beta) mean_i grad f_i(x)

Mime needs c before the local steps: two exchanges, gradients first.

    paper   beta
    here    server_momentum
"""

from typing import NamedTuple

import jax
import optax

from fedjax_mos.client.tools import walk
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


class LiteServer(NamedTuple):
    params: Params
    momentum: Params  # m


class Server(NamedTuple):
    params: Params
    momentum: Params  # m
    gradient: Params  # c, of the latest round


class LiteDown(NamedTuple):
    model: Params
    momentum: Params


class LiteUp(NamedTuple):
    delta: Params
    gradient: Params


class MimeDown(NamedTuple):
    momentum: Params
    gradient: Params


@cite("karimireddy2021mime")
def mimelite(
    local: LocalWork, *, lr: Positive = 0.1, server_momentum: Unit = 0.9
) -> Algorithm:
    """MimeLite. No client state; two trees up, two down; K + full gradients."""
    beta = server_momentum

    def client(
        down: LiteDown, mine: tuple, view: ClientView, key: Key
    ) -> tuple[LiteUp, tuple, Metrics]:
        x, m = down

        def direction(y: Params, now: Step) -> tuple[jax.Array, Params]:
            value, g = local.gradient(y, now)
            return value, jax.tree.map(lambda g, m: (1 - beta) * g + beta * m, g, m)

        y, _, metrics = walk(local, direction, x, view, key, lr)
        _, full = local.full_gradient(x, view, key)
        return LiteUp(optax.tree.sub(y, x), full), mine, metrics

    def init(params: Params, key: Key) -> tuple[LiteServer, tuple]:
        return LiteServer(params, optax.tree.zeros_like(params)), ()

    def server(state: LiteServer, agg: Aggregate) -> LiteServer:
        x = optax.tree.add(state.params, agg.mean.delta)
        return LiteServer(x, _mixed(beta, state.momentum, agg.mean.gradient))

    def broadcast(state: LiteServer) -> LiteDown:
        return LiteDown(state.params, state.momentum)

    return Algorithm(init, (Exchange(broadcast, client, server),))


@cite("karimireddy2021mime")
def mime(
    local: LocalWork, *, lr: Positive = 0.1, server_momentum: Unit = 0.9
) -> Algorithm:
    """Mime. No client state; two trees up, three down; 2 K + full gradients."""
    beta = server_momentum

    def measure(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, Params, Metrics]:
        _, full = local.full_gradient(x, view, key)
        return full, x, {}  # the client holds x until the second exchange

    def remember(state: Server, agg: Aggregate) -> Server:
        return Server(state.params, state.momentum, agg.mean)

    def client(
        down: MimeDown, x: Params, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        m, c = down

        def direction(y: Params, now: Step) -> tuple[jax.Array, Params]:
            value, g = local.gradient(y, now)
            _, g_x = local.gradient(x, now)  # same batch, same key
            d = jax.tree.map(lambda g, g_x, c: g - g_x + c, g, g_x, c)
            return value, jax.tree.map(lambda d, m: (1 - beta) * d + beta * m, d, m)

        y, _, metrics = walk(local, direction, x, view, key, lr)
        return optax.tree.sub(y, x), (), metrics

    def server(state: Server, agg: Aggregate) -> Server:
        x = optax.tree.add(state.params, agg.mean)
        return Server(x, _mixed(beta, state.momentum, state.gradient), state.gradient)

    first = Exchange(lambda s: s.params, measure, remember)
    second = Exchange(lambda s: MimeDown(s.momentum, s.gradient), client, server)

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        zeros = optax.tree.zeros_like(params)
        return Server(params, zeros, zeros), ()

    return Algorithm(init, (first, second))


def _mixed(beta: Scalar, momentum: Params, gradient: Params) -> Params:
    """m <- beta m + (1 - beta) gradient."""
    return jax.tree.map(lambda m, g: beta * m + (1 - beta) * g, momentum, gradient)
