"""NAME: what it does, in one line.

Authors, venue year [key of references.bib].

Client i, with x the received model and y_0 = x:

    y_{k+1} = y_k - lr g(y_k)
    send      delta_i = y_K - x

Server:   x <- x + mean_i delta_i

    paper   eta
    here    lr
"""

from typing import NamedTuple

import jax
import optax

from fedjax_mos.client.tools import local_scan, num_steps
from fedjax_mos.components import cite
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    ClientView,
    Exchange,
    Key,
    LocalWork,
    Metrics,
    Params,
    Positive,
    Step,
)


class Server(NamedTuple):
    params: Params  # x; further fields with the paper's symbol


@cite("key")
def name(local: LocalWork, *, lr: Positive = 0.1) -> Algorithm:
    """NAME. State per client; trees up, trees down; gradient evaluations per round."""

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        return Server(params), ()  # () is one client's own state

    def client(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        plan = local.plan(view, key)

        def step(y: Params, now: Step) -> tuple[Params, jax.Array]:
            value, g = local.gradient(y, now)
            return local.descend(y, g, lr, now), value

        y, values = local_scan(step, x, view, plan)
        return optax.tree.sub(y, x), mine, {"loss": values.sum() / num_steps(plan)}

    def server(state: Server, agg: Aggregate) -> Server:
        return Server(optax.tree.add(state.params, agg.mean))

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))
