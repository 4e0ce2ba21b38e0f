"""LAG: lazily aggregated gradients.

Chen et al., NeurIPS 2018 [chen2018lag].

All N workers, one full gradient per round. With g^_m the last gradient that worker m
uploaded, the server keeps G = sum_m g^_m and moves  x <- x - lr G.

    worker rule   m uploads grad f_m(x) - g^_m unless its square is <= the threshold
    server rule   m is contacted unless L_m^2 |x^_m - x|^2 <= the threshold, x^_m being
                  the model at its last upload
    threshold     1 / (lr^2 N^2) sum_{r=1..R} xi_r |x^{t+1-r} - x^{t-r}|^2

The worker rule is the channel `lag_worker`, the server rule the sampler `lag_contact`;
the threshold travels with the model and costs 32 bits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.components import cite
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    ClientView,
    Count,
    Exchange,
    Key,
    LocalWork,
    Metrics,
    Params,
    Positive,
)


class Server(NamedTuple):
    params: Params
    total: Params  # G
    moves: jax.Array  # [R] squared lengths of the last moves, latest first
    threshold: jax.Array


class Down(NamedTuple):
    model: Params
    threshold: jax.Array


@cite("chen2018lag")
def lag(
    local: LocalWork,
    *,
    lr: Positive = 0.001,
    horizon: Count = 10,
    xi: tuple[float, ...] = (),
) -> Algorithm:
    """LAG. The channel keeps one tree per client; at most one tree up; one down.

    `xi` are the weights xi_1 to xi_R of the last R moves, the latest first; without
    them all are 1/R, with R = `horizon`.
    """
    if xi and min(xi) < 0:
        raise ValueError(f"xi must not be negative: got {tuple(xi)}")

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        zero = jnp.zeros((), tree.float_dtype(params))
        moves = jnp.zeros(len(xi) or horizon, zero.dtype)
        return Server(params, optax.tree.zeros_like(params), moves, zero), ()

    def client(
        down: Down, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        value, g = local.full_gradient(down.model, view, key)
        return g, mine, {"loss": value}

    def server(state: Server, agg: Aggregate) -> Server:
        total = optax.tree.add(state.total, agg.sum)
        move = optax.tree.scale(-lr, local.decayed(total, state.params))
        latest = optax.tree.vdot(move, move)[None]
        moves = jnp.concatenate([latest, state.moves[:-1]])
        recent = moves.mean() if not xi else moves @ jnp.asarray(xi, moves.dtype)
        threshold = recent / (lr * agg.num_clients) ** 2
        return Server(optax.tree.add(state.params, move), total, moves, threshold)

    def broadcast(state: Server) -> Down:
        return Down(state.params, state.threshold)

    return Algorithm(init, (Exchange(broadcast, client, server),))
