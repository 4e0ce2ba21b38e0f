"""FedAvg and its relatives: local SGD, an optax transform on the server.

FedAvg: McMahan et al., AISTATS 2017 [mcmahan2017fedavg]. FedProx: Li et al., MLSys 2020
[li2020fedprox]. FedAvgM: Hsu et al., 2019 [hsu2019fedavgm]. FedOpt: Reddi et al., ICLR
2021 [reddi2021adaptive], whose adaptive servers are in `fedadam.py`.

Client i, with x the received model and y_0 = x:

    y_{k+1} = y_k - lr g(y_k),   FedProx: f_i + prox/2 |y - x|^2 in place of f_i
    send      delta_i = y_K - x

Server:   x <- x + step(mean_i delta_i), the step an optimiser's.

None has client state; one tree up, one down; K gradient evaluations.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import optax

from fedjax_mos.algorithms.composed import MakeAlgorithm, composed
from fedjax_mos.algorithms.local_sgd import ClientState, sgd_client
from fedjax_mos.components import cite, cited, name_of
from fedjax_mos.objectives.base import Objective, near_anchor, plain
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

_AVERAGE = optax.sgd(1.0)


class Server(NamedTuple):
    params: Params
    optimizer: optax.OptState


@cite("reddi2021adaptive")
def fedopt(
    local: LocalWork,
    *,
    lr: Positive = 0.01,
    server_optimizer: optax.GradientTransformation = _AVERAGE,
    client_optimizer: optax.GradientTransformation | None = None,
    client_state: ClientState = "reset",
    objective: Objective | None = None,
) -> Algorithm:
    """FedOpt: any optax transforms on the server and the clients, any local objective.

    With a `client_optimizer`, lr is not used: the transform has its own. Its state is
    new every round ("reset") or stays with the client ("kept").
    """
    start, client = sgd_client(
        local, objective or plain(), lr, client_optimizer, client_state
    )

    def init(params: Params, key: Key) -> tuple[Server, Mine]:
        return Server(params, server_optimizer.init(params)), start(params)

    def server(state: Server, agg: Aggregate) -> Server:
        # optax descends; the pseudo-gradient is minus the mean displacement.
        pseudo = optax.tree.scale(-1, agg.mean)
        step, s = server_optimizer.update(pseudo, state.optimizer, state.params)
        return Server(optax.apply_updates(state.params, step), s)

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))


def on_fedopt(
    server: Callable[..., optax.GradientTransformation],
    objective: Callable[..., Objective] = plain,
    *,
    lr: float = 0.1,
) -> MakeAlgorithm:
    """FedOpt whose server_optimizer and objective are made from options of their own.

    It has the name, docstring and references of `server`, which it decorates.
    """
    return composed(
        fedopt,
        {"server_optimizer": server, "objective": objective},
        name=name_of(server),
        doc=server.__doc__,
        cites=cited(server),
        module=server.__module__,
        lr=lr,
    )


@partial(on_fedopt, lr=0.01)
@cite("mcmahan2017fedavg")
def fedavg(*, server_lr: NonNegative = 1.0) -> optax.GradientTransformation:
    """FedAvg: x <- x + server_lr * mean_i delta_i.

    >>> import fedjax_mos as fm
    >>> fm.spec(fm.algorithms.fedavg, lr=0.1).hp
    {'lr': 0.1, 'server_lr': 1.0}
    """
    return optax.sgd(server_lr)


@partial(on_fedopt, objective=near_anchor)
@cite("li2020fedprox")
def fedprox(*, server_lr: NonNegative = 1.0) -> optax.GradientTransformation:
    """FedProx: FedAvg with prox/2 |y - x|^2 added to the local loss."""
    return optax.sgd(server_lr)


@on_fedopt
@cite("hsu2019fedavgm")
def fedavgm(
    *, server_lr: NonNegative = 1.0, server_momentum: Unit = 0.4
) -> optax.GradientTransformation:
    """FedAvgM: m <- server_momentum m + mean_i delta_i,  x <- x + server_lr m."""
    return optax.sgd(server_lr, server_momentum)
