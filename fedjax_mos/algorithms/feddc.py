"""FedDC: local drift decoupling and correction.

Gao et al., CVPR 2022 [gao2022feddc].

Client i, with x, s received, its own drift h_i and gradient estimate s_i, and y_0 = x:

    objective  f_i(y) + alpha/2 |y - x + h_i|^2 + <y, s - s_i>
    h_i <- h_i + (y_K - x)
    s_i+ = s_i - s - (y_K - x) / (K lr)
    send   y_K - x,  s_i+ - s_i

Server, with h the mean drift of all N clients:

    h <- h + 1/N sum_i (y_K - x),   x <- x + mean_i (y_K - x) + h
    s <- s + 1/N sum_i (s_i+ - s_i)

    paper   alpha
    here    dyn
"""

from typing import NamedTuple

import jax
import optax

from fedjax_mos.client.tools import walk
from fedjax_mos.components import cite
from fedjax_mos.objectives.base import proximal
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    Batch,
    ClientView,
    Exchange,
    Key,
    LocalWork,
    Metrics,
    NonNegative,
    Params,
    Positive,
)


class Server(NamedTuple):
    params: Params
    drift: Params  # h
    estimate: Params  # s


class Mine(NamedTuple):
    drift: Params  # h_i
    estimate: Params  # s_i


class Message(NamedTuple):
    """Down: x and s. Up: their changes."""

    model: Params
    estimate: Params


@cite("gao2022feddc")
def feddc(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    dyn: NonNegative = 0.01,
    scale_by_importance: bool = False,
) -> Algorithm:
    """FedDC. Two trees per client; two up, two down; K gradient evaluations.

    `scale_by_importance`, with w = N p_i, as the authors' program for unequal clients:
    alpha / w, s / w and w (s_i+ - s_i).
    """

    def init(params: Params, key: Key) -> tuple[Server, Mine]:
        zeros = optax.tree.zeros_like(params)
        return Server(params, zeros, zeros), Mine(zeros, zeros)

    def client(
        down: Message, mine: Mine, view: ClientView, key: Key
    ) -> tuple[Message, Mine, Metrics]:
        x = down.model
        w = view.importance if scale_by_importance else 1
        s = optax.tree.scale(1 / w, down.estimate)
        pull = proximal(local.loss, optax.tree.sub(x, mine.drift), dyn / w)
        slope = optax.tree.sub(s, mine.estimate)

        def objective(y: Params, batch: Batch, key: Key | None) -> jax.Array:
            return pull(y, batch, key) + optax.tree.vdot(y, slope)

        gradient = local.gradient_of(objective)
        y, plan, metrics = walk(local, gradient, x, view, key, lr)
        delta = optax.tree.sub(y, x)
        path_length = local.path_length(plan, lr)
        change = jax.tree.map(lambda s, d: -s - d / path_length, s, delta)  # s_i+ - s_i
        new = Mine(
            optax.tree.add(mine.drift, delta), optax.tree.add(mine.estimate, change)
        )
        return Message(delta, optax.tree.scale(w, change)), new, metrics

    def server(state: Server, agg: Aggregate) -> Server:
        n = agg.num_clients
        h = optax.tree.add_scale(state.drift, 1 / n, agg.sum.model)
        x = jax.tree.map(lambda x, d, h: x + d + h, state.params, agg.mean.model, h)
        s = optax.tree.add_scale(state.estimate, 1 / n, agg.sum.estimate)
        return Server(x, h, s)

    def broadcast(state: Server) -> Message:
        return Message(state.params, state.estimate)

    return Algorithm(init, (Exchange(broadcast, client, server),))
