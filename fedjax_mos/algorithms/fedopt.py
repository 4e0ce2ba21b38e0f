"""FedAvg and its relatives: local SGD, an optax transform on the server.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017 (FedAvg); Li et al., "Federated Optimization in Heterogeneous
Networks", MLSys 2020 (FedProx); Hsu et al., "Measuring the Effects of Non-Identical
Data Distribution for Federated Visual Classification", 2019 (FedAvgM); Reddi et al.,
"Adaptive Federated Optimization", ICLR 2021 (FedAdagrad, FedAdam, FedYogi); Wang et
al., "Communication-Efficient Adaptive Federated Learning", ICML 2022 (FedAMS).

Client i, with x the received model and y_0 = x:

    y_{k+1} = y_k - lr g(y_k),   FedProx: f_i + prox/2 |y - x|^2 in place of f_i
    send      delta_i = y_K - x

Server:   x <- x + step(mean_i delta_i), the step an optimiser's.

None has client state; one tree up, one down; K gradient evaluations.
"""

from typing import Any, Literal, NamedTuple

import optax

from fedjax_mos.algorithms import server_optimizers as optimizers
from fedjax_mos.algorithms.client import sgd_client
from fedjax_mos.losses import Objective, near_anchor, plain
from fedjax_mos.types import Aggregate, Algorithm, Exchange, LocalWork, Params, Scalar


class Server(NamedTuple):
    params: Params
    optimizer: Any  # the state of the optax transform


def fedopt(
    local: LocalWork,
    *,
    lr: Scalar,
    server: optax.GradientTransformation,
    objective: Objective | None = None,
) -> Algorithm:
    """Local SGD on any objective, with any optax transform on the server."""
    memory, client = sgd_client(local, objective or plain(), lr)

    def init(params: Params) -> tuple[Server, Any]:
        return Server(params, server.init(params)), memory(params)

    def update(state: Server, agg: Aggregate) -> Server:
        # optax descends; the pseudo-gradient is minus the mean displacement.
        pseudo = optax.tree.scale(-1, agg.mean)
        step, optimizer = server.update(pseudo, state.optimizer, state.params)
        return Server(optax.apply_updates(state.params, step), optimizer)

    return Algorithm(init, (Exchange(lambda s: s.params, client, update),))


def fedavg(local: LocalWork, *, lr: Scalar, server_lr: Scalar) -> Algorithm:
    """FedAvg: x <- x + server_lr * mean_i delta_i.

    >>> import fedjax_mos as fm
    >>> fm.spec(fm.fedavg, lr=0.1, server_lr=1.0).hp
    {'lr': 0.1, 'server_lr': 1.0}
    """
    return fedopt(local, lr=lr, server=optax.sgd(server_lr))


def fedprox(
    local: LocalWork, *, lr: Scalar, prox: Scalar, server_lr: Scalar
) -> Algorithm:
    """FedProx: FedAvg with prox/2 |y - x|^2 added to the local loss."""
    return fedopt(
        local, lr=lr, server=optax.sgd(server_lr), objective=near_anchor(prox)
    )


def fedavgm(
    local: LocalWork, *, lr: Scalar, server_lr: Scalar, server_momentum: Scalar
) -> Algorithm:
    """FedAvgM: m <- server_momentum m + mean_i delta_i,  x <- x + server_lr m."""
    return fedopt(local, lr=lr, server=optax.sgd(server_lr, server_momentum))


def fedadagrad(
    local: LocalWork, *, lr: Scalar, server_lr: Scalar, b1: Scalar, eps: Scalar
) -> Algorithm:
    """FedAdagrad: v <- v + delta^2."""
    return fedopt(local, lr=lr, server=optimizers.adagrad(server_lr, b1, eps))


def fedadam(
    local: LocalWork,
    *,
    lr: Scalar,
    server_lr: Scalar,
    b1: Scalar,
    b2: Scalar,
    eps: Scalar,
) -> Algorithm:
    """FedAdam: v <- b2 v + (1 - b2) delta^2; no bias correction, v_0 = eps^2."""
    return fedopt(local, lr=lr, server=optimizers.adam(server_lr, b1, b2, eps))


def fedyogi(
    local: LocalWork,
    *,
    lr: Scalar,
    server_lr: Scalar,
    b1: Scalar,
    b2: Scalar,
    eps: Scalar,
) -> Algorithm:
    """FedYogi: v <- v - (1 - b2) delta^2 sign(v - delta^2)."""
    return fedopt(local, lr=lr, server=optimizers.yogi(server_lr, b1, b2, eps))


def fedams(
    local: LocalWork,
    *,
    lr: Scalar,
    server_lr: Scalar,
    b1: Scalar,
    b2: Scalar,
    eps: Scalar,
    option: Literal[1, 2] = 1,
    bias_correction: bool = False,
) -> Algorithm:
    """FedAMS: FedAdam with a running maximum of v.

    Option 1 bounds it below by eps, option 2 adds eps to its root. The paper has no
    `bias_correction`, its released program does.
    """
    server = optimizers.ams(server_lr, b1, b2, eps, option, bias_correction)
    return fedopt(local, lr=lr, server=server)
