"""FedDyn: dynamic regularisation.

Acar et al., ICLR 2021 [acar2021feddyn].

Client i, with x received, its own dual l_i, and y_0 = x:

    objective  f_i(y) - <l_i, y> + alpha/2 |y - x|^2
    l_i <- l_i - alpha (y_K - x)
    send   delta_i = y_K - x

Server, with H = h / alpha so that nothing is divided by alpha:

    H <- H - 1/N sum_i delta_i,   x <- x + mean_i delta_i - H

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
    correction: Params  # H


@cite("acar2021feddyn")
def feddyn(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    dyn: NonNegative = 0.1,
    scale_by_importance: bool = False,
) -> Algorithm:
    """FedDyn. One tree per client; one up, one down; K gradient evaluations.

    `scale_by_importance` divides alpha by N p_i, as the authors' program does for
    clients of unequal size.
    """

    def init(params: Params, key: Key) -> tuple[Server, Params]:
        zeros = optax.tree.zeros_like(params)
        return Server(params, zeros), zeros

    def client(
        x: Params, dual: Params, view: ClientView, key: Key
    ) -> tuple[Params, Params, Metrics]:
        alpha = dyn / view.importance if scale_by_importance else dyn
        regularised = proximal(local.loss, x, alpha)

        def objective(y: Params, batch: Batch, key: Key | None) -> jax.Array:
            return regularised(y, batch, key) - optax.tree.vdot(dual, y)

        gradient = local.gradient_of(objective)
        y, _, metrics = walk(local, gradient, x, view, key, lr)
        delta = optax.tree.sub(y, x)
        return delta, optax.tree.add_scale(dual, -alpha, delta), metrics

    def server(state: Server, agg: Aggregate) -> Server:
        new = optax.tree.add_scale(state.correction, -1 / agg.num_clients, agg.sum)
        x = jax.tree.map(lambda x, d, h: x + d - h, state.params, agg.mean, new)
        return Server(x, new)

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))
