"""FedAvg and its server optimisers: plain local SGD, an optax transform on the server.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
Data", AISTATS 2017 (FedAvg); Reddi et al., "Adaptive Federated Optimization", ICLR 2021
(the server's step as an optimiser of the pseudo-gradient).

Client i, with x the received model and y_0 = x:

    y_{k+1} = y_k - lr g(y_k)
    send      delta_i = y_K - x

Server:   x <- x + step(mean_i delta_i);   FedAvg: step = server_lr * mean.
"""

from typing import Any, NamedTuple

import jax
import optax

from fedjax_mos.local import PLAN, local_scan, num_steps
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    ClientView,
    Exchange,
    Key,
    LocalWork,
    Metrics,
    Params,
    Scalar,
    Step,
)


class Server(NamedTuple):
    params: Params
    optimizer: Any  # the state of the optax transform


def fedopt(
    local: LocalWork, *, lr: Scalar, server: optax.GradientTransformation
) -> Algorithm:
    """Local SGD with `server` as the server's optimiser. One tree up, one down."""

    def init(params: Params) -> tuple[Server, tuple]:
        return Server(params, server.init(params)), ()

    def client(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        plan = local.plan(view, jax.random.fold_in(key, PLAN))

        def step(y: Params, now: Step) -> tuple[Params, jax.Array]:
            value, g = local.gradient(y, now.batch, now.key)
            return local.descend(y, g, lr, now.epoch), value

        y, values = local_scan(step, x, view, plan)
        return optax.tree.sub(y, x), mine, {"loss": values.sum() / num_steps(plan)}

    def update(state: Server, agg: Aggregate) -> Server:
        # optax descends; the pseudo-gradient is minus the mean displacement.
        pseudo = optax.tree.scale(-1, agg.mean)
        step, optimizer = server.update(pseudo, state.optimizer, state.params)
        return Server(optax.apply_updates(state.params, step), optimizer)

    return Algorithm(init, (Exchange(lambda s: s.params, client, update),))


def fedavg(local: LocalWork, *, lr: Scalar, server_lr: Scalar) -> Algorithm:
    """FedAvg: x <- x + server_lr * mean_i delta_i.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from
    Decentralized Data", AISTATS 2017. No state; one tree up, one down; K gradient
    evaluations.

    >>> import fedjax_mos as fm
    >>> fm.spec(fm.fedavg, lr=0.1, server_lr=1.0).hp
    {'lr': 0.1, 'server_lr': 1.0}
    """
    return fedopt(local, lr=lr, server=optax.sgd(server_lr))
