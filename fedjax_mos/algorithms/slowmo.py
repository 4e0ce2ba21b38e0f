"""SlowMo: momentum between rounds, in gradient units.

Wang et al., "SlowMo: Improving Communication-Efficient Distributed SGD with Slow
Momentum", ICLR 2020.

Client: local SGD at the round's step size lr_t; send delta_i = y_K - x.

Server:   u <- beta u - mean_i delta_i / lr_t,   x <- x - alpha lr_t u

    paper   beta              alpha       gamma_t
    here    server_momentum   server_lr   lr

With constant lr and alpha = 1 it is FedAvgM.
"""

from typing import Any, NamedTuple

import jax
import optax

from fedjax_mos.algorithms.client import sgd_client
from fedjax_mos.losses import plain
from fedjax_mos.types import Aggregate, Algorithm, Exchange, LocalWork, Params, Scalar


class Server(NamedTuple):
    params: Params
    momentum: Params  # u


def slowmo(
    local: LocalWork, *, lr: Scalar, server_lr: Scalar, server_momentum: Scalar
) -> Algorithm:
    """SlowMo. No client state; one tree up, one down; K gradient evaluations."""

    memory, client = sgd_client(local, plain(), lr)

    def init(params: Params) -> tuple[Server, Any]:
        return Server(params, optax.tree.zeros_like(params)), memory(params)

    def server(state: Server, agg: Aggregate) -> Server:
        u = jax.tree.map(
            lambda u, delta: server_momentum * u - delta / lr, state.momentum, agg.mean
        )
        return Server(optax.tree.add_scale(state.params, -server_lr * lr, u), u)

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))
