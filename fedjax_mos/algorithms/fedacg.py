"""FedACG: accelerated client gradient, a look-ahead by the server.

Kim et al., CVPR 2024 [kim2024fedacg].

The server broadcasts P = x + lambda m. Client i, with y_0 = P:

    y_{k+1} = y_k - lr (g(y_k) + beta (y_k - P))
    send      delta_i = y_K - P

Server:   m <- lambda m + mean_i delta_i,   x <- x + m

    paper   lambda            beta
    here    server_momentum   prox

The released program's weight w (no 1/2) is prox = 2 w.
"""

from typing import NamedTuple

import optax

from fedjax_mos.algorithms.composed import composed
from fedjax_mos.algorithms.local_sgd import ClientState, sgd_client
from fedjax_mos.components import cite
from fedjax_mos.objectives.base import Objective, near_anchor, plain
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    Exchange,
    Key,
    LocalWork,
    Mine,
    Params,
    Positive,
    Unit,
)


class Server(NamedTuple):
    params: Params
    momentum: Params  # m


@cite("kim2024fedacg")
def with_lookahead(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    server_momentum: Unit = 0.85,
    client_optimizer: optax.GradientTransformation | None = None,
    client_state: ClientState = "reset",
    objective: Objective | None = None,
) -> Algorithm:
    """FedACG's server around clients with any objective; their anchor is P.

    With a `client_optimizer`, lr is not used; see `fedopt`.
    """
    start, client = sgd_client(
        local, objective or plain(), lr, client_optimizer, client_state
    )

    def init(params: Params, key: Key) -> tuple[Server, Mine]:
        return Server(params, optax.tree.zeros_like(params)), start(params)

    def broadcast(state: Server) -> Params:
        return optax.tree.add_scale(state.params, server_momentum, state.momentum)

    def server(state: Server, agg: Aggregate) -> Server:
        m = optax.tree.add_scale(agg.mean, server_momentum, state.momentum)
        return Server(optax.tree.add(state.params, m), m)

    return Algorithm(init, (Exchange(broadcast, client, server),))


fedacg = composed(
    with_lookahead,
    {"objective": near_anchor},
    name="fedacg",
    doc="FedACG. No client state; one tree up, one down; K gradient evaluations.",
    cites=("kim2024fedacg",),
    module=__name__,
)
