"""FedMoS as its authors' published program computes it, which is not the paper.

Program of Wang et al., INFOCOM 2023 [wang2023fedmos]:
Distributed-Learning-Networking-Group/FedMoS, commit 4cc4525.

The released optimiser evaluates one gradient per step and subtracts a stored one of
another batch, whose memory is zero at the second step. What remains is plain SGD plus
a fading multiple of the first minibatch gradient:

    d_0     = g(x; b_0)
    d_k     = g(y_k; b_k) + (1 - a)^k d_0
    y_{k+1} = y_k - lr d_k - prox (y_k - x)
    send      delta_i = y_K - x

Server: round 0 takes x <- x + mean_i delta_i and leaves u at 0; then as in the paper
u <- beta u - mean_i delta_i / lr,   x <- x - lr u.

The release also counts local work in epochs (plan `epochs`).
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
    momentum: Params  # u
    started: jax.Array  # 0 in round 0, then 1


@cite("wang2023fedmos")
def fedmos_release(
    local: LocalWork,
    *,
    lr: Positive = 0.01,
    storm: Unit = 0.1,
    prox: NonNegative = 0.001,
    server_momentum: Unit = 0.8,
) -> Algorithm:
    """FedMoS, release variant. One tree up, one down; K gradient evaluations."""

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        return Server(params, optax.tree.zeros_like(params), jnp.zeros((), bool)), ()

    def client(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        plan = local.plan(view, key)

        def step(
            carry: tuple[Params, Params, jax.Array], now: Step
        ) -> tuple[tuple[Params, Params, jax.Array], jax.Array]:
            y, fading, k = carry  # fading = (1 - a)^k d_0, and 0 before step 0
            value, g = local.gradient(y, now)
            d = optax.tree.add(g, fading)
            fading = optax.tree.scale(
                1 - storm, jax.tree.map(lambda d, f: jnp.where(k == 0, d, f), d, fading)
            )
            y_next = local.descend(y, d, lr, now)
            y = jax.tree.map(lambda n, y, x: n - prox * (y - x), y_next, y, x)
            return (y, fading, k + 1), value

        carry = (x, optax.tree.zeros_like(x), jnp.zeros((), jnp.int32))
        (y, _, _), values = local_scan(step, carry, view, plan)
        return optax.tree.sub(y, x), mine, {"loss": values.sum() / num_steps(plan)}

    def server(state: Server, agg: Aggregate) -> Server:
        u = jax.tree.map(
            lambda u, delta: jnp.where(
                state.started, server_momentum * u - delta / lr, 0
            ),
            state.momentum,
            agg.mean,
        )
        params = jax.tree.map(
            lambda x, u, delta: jnp.where(state.started, x - lr * u, x + delta),
            state.params,
            u,
            agg.mean,
        )
        return Server(params, u, jnp.ones((), bool))

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))
