"""FedACG: accelerated client gradient, a look-ahead by the server.

Kim et al., "Communication-Efficient Federated Learning with Accelerated Client
Gradient", CVPR 2024.

The server broadcasts P = x + lambda m. Client i, with y_0 = P:

    y_{k+1} = y_k - lr (g(y_k) + beta (y_k - P))
    send      delta_i = y_K - P

Server:   m <- lambda m + mean_i delta_i,   x <- x + m

    paper   lambda            beta
    here    server_momentum   prox

The released program's weight w (no 1/2) is prox = 2 w.
"""

from typing import Any, NamedTuple

import optax

from fedjax_mos.algorithms.client import sgd_client
from fedjax_mos.losses import Objective, near_anchor
from fedjax_mos.types import Aggregate, Algorithm, Exchange, LocalWork, Params, Scalar


class Server(NamedTuple):
    params: Params
    momentum: Params  # m


def fedacg(
    local: LocalWork, *, lr: Scalar, prox: Scalar, server_momentum: Scalar
) -> Algorithm:
    """FedACG. No client state; one tree up, one down; K gradient evaluations."""
    objective = near_anchor(prox)
    return with_lookahead(
        local, lr=lr, server_momentum=server_momentum, objective=objective
    )


def with_lookahead(
    local: LocalWork, *, lr: Scalar, server_momentum: Scalar, objective: Objective
) -> Algorithm:
    """FedACG's server around clients with any objective; their anchor is P."""
    memory, client = sgd_client(local, objective, lr)

    def init(params: Params) -> tuple[Server, Any]:
        return Server(params, optax.tree.zeros_like(params)), memory(params)

    def broadcast(state: Server) -> Params:
        return optax.tree.add_scale(state.params, server_momentum, state.momentum)

    def server(state: Server, agg: Aggregate) -> Server:
        m = optax.tree.add_scale(agg.mean, server_momentum, state.momentum)
        return Server(optax.tree.add(state.params, m), m)

    return Algorithm(init, (Exchange(broadcast, client, server),))
