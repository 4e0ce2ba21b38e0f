"""FedCM: client-level momentum.

Xu et al., 2021 [xu2021fedcm].

Client i, with x, D received and y_0 = x:

    v = alpha g(y_k) + (1 - alpha) D,   y_{k+1} = y_k - lr v
    send   u_i = (x - y_K) / sum_k lr_k  (gradient units), and that sum

Server:   D <- mean_i u_i,   x <- x - server_lr L D,   L the mean of sum_k lr_k

D is divided by the step size and the number of steps of the round and client that made
it, so it stays right under decay and unequal step counts (the paper's lr K is a
constant; the one number that says the sum costs 32 bits more than its table).

    paper   alpha   eta_g / (eta_l K)
    here    mix     server_lr
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
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
    NonNegative,
    Params,
    Positive,
    Step,
    Unit,
)


class Server(NamedTuple):
    params: Params
    direction: Params  # D


class Down(NamedTuple):
    model: Params
    direction: Params


class Up(NamedTuple):
    direction: Params
    path_length: jax.Array  # sum_k lr_k


@cite("xu2021fedcm")
def fedcm(
    local: LocalWork,
    *,
    lr: Positive = 0.1,
    mix: Unit = 0.1,
    server_lr: NonNegative = 1.0,
    decay_inside: bool = False,
) -> Algorithm:
    """FedCM. No client state; one tree up, two down; K gradient evaluations.

    Weight decay is added outside the mixture as public programs do; since D then
    carries it on, its effect is weight_decay / mix. `decay_inside` mixes it with the
    gradient, for which the paper's Lemma 4.1 holds.
    """

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        return Server(params, optax.tree.zeros_like(params)), ()

    def client(
        down: Down, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Up, tuple, Metrics]:
        plan = local.plan(view, key)
        descend = local.move if decay_inside else local.descend

        def step(y: Params, now: Step) -> tuple[Params, jax.Array]:
            value, g = local.gradient(y, now)
            g = local.decayed(g, y) if decay_inside else g
            v = jax.tree.map(lambda g, d: mix * g + (1 - mix) * d, g, down.direction)
            return descend(y, v, lr, now), value

        y, values = local_scan(step, down.model, view, plan)
        path_length = local.path_length(plan, lr)
        u = jax.tree.map(lambda x, y: (x - y) / path_length, down.model, y)
        return Up(u, path_length), mine, {"loss": values.sum() / num_steps(plan)}

    def server(state: Server, agg: Aggregate) -> Server:
        path_length = agg.sum.path_length / jnp.maximum(agg.live, 1)
        x = optax.tree.add_scale(
            state.params, -server_lr * path_length, agg.mean.direction
        )
        return Server(x, agg.mean.direction)

    def broadcast(state: Server) -> Down:
        return Down(state.params, state.direction)

    return Algorithm(init, (Exchange(broadcast, client, server),))
