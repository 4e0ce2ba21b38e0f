"""SlowMo: momentum between rounds, in gradient units.

Wang et al., ICLR 2020 [wang2020slowmo].

Client: local SGD at the round's step size lr_t; send delta_i = y_K - x.

Server:   u <- beta u - mean_i delta_i / lr_t,   x <- x - alpha lr_t u

    paper   beta              alpha       gamma_t
    here    server_momentum   server_lr   lr

With constant lr and alpha = 1 it is FedAvgM.
"""

from typing import NamedTuple

import jax
import optax

from fedjax_mos.algorithms.local_sgd import sgd_client
from fedjax_mos.components import cite
from fedjax_mos.objectives.base import plain
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    Exchange,
    Key,
    LocalWork,
    Mine,
    NonNegative,
    Params,
    Positive,
    Unit,
)


class Server(NamedTuple):
    params: Params
    momentum: Params  # u


@cite("wang2020slowmo")
def slowmo(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    server_lr: NonNegative = 1.0,
    server_momentum: Unit = 0.5,
) -> Algorithm:
    """SlowMo. No client state; one tree up, one down; K gradient evaluations."""
    start, client = sgd_client(local, plain(), lr)

    def init(params: Params, key: Key) -> tuple[Server, Mine]:
        return Server(params, optax.tree.zeros_like(params)), start(params)

    def server(state: Server, agg: Aggregate) -> Server:
        u = jax.tree.map(
            lambda u, delta: server_momentum * u - delta / lr, state.momentum, agg.mean
        )
        return Server(optax.tree.add_scale(state.params, -server_lr * lr, u), u)

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))
