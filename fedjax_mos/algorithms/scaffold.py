"""SCAFFOLD: control variates against client drift.

Karimireddy et al., ICML 2020 [karimireddy2020scaffold].

Client i, with x, c received, its own c_i, and y_0 = x:

    y_{k+1} = y_k - lr (g(y_k) - c_i + c)
    option I    c_i+ = grad f_i(x) over all local data
    option II   c_i+ = c_i - c + (x - y_K) / (K lr)
    send        y_K - x,  c_i+ - c_i

Server:   x <- x + server_lr mean_i (y_K - x),   c <- c + 1/N sum_i (c_i+ - c_i)
"""

from typing import Literal, NamedTuple

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
    NonNegative,
    Params,
    Positive,
    Step,
)


class Server(NamedTuple):
    params: Params
    control: Params  # c


class Message(NamedTuple):
    """Down: x and c. Up: their changes."""

    model: Params
    control: Params


@cite("karimireddy2020scaffold")
def scaffold(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    server_lr: NonNegative = 1.0,
    option: Literal[1, 2] = 2,
) -> Algorithm:
    """SCAFFOLD. One tree per client; two up, two down; K gradient evaluations.

    Option 1 costs one full local gradient more.
    """
    if option not in (1, 2):
        raise ValueError(f"option must be 1 or 2: got {option!r}")

    def init(params: Params, key: Key) -> tuple[Server, Params]:
        zeros = optax.tree.zeros_like(params)
        return Server(params, zeros), zeros

    def client(
        down: Message, c_i: Params, view: ClientView, key: Key
    ) -> tuple[Message, Params, Metrics]:
        x, c = down

        def direction(y: Params, now: Step) -> tuple[jax.Array, Params]:
            value, g = local.gradient(y, now)
            return value, jax.tree.map(lambda g, c_i, c: g - c_i + c, g, c_i, c)

        y, plan, metrics = walk(local, direction, x, view, key, lr)
        delta = optax.tree.sub(y, x)
        if option == 1:
            _, new = local.full_gradient(x, view, key)
        else:
            path_length = local.path_length(plan, lr)
            new = jax.tree.map(
                lambda c_i, c, d: c_i - c - d / path_length, c_i, c, delta
            )
        return Message(delta, optax.tree.sub(new, c_i)), new, metrics

    def server(state: Server, agg: Aggregate) -> Server:
        return Server(
            optax.tree.add_scale(state.params, server_lr, agg.mean.model),
            optax.tree.add_scale(state.control, 1 / agg.num_clients, agg.sum.control),
        )

    def broadcast(state: Server) -> Message:
        return Message(state.params, state.control)

    return Algorithm(init, (Exchange(broadcast, client, server),))
