"""FedMoS: double momentum against client drift.

Wang et al., INFOCOM 2023 [wang2023fedmos], Algorithm 1.

Client i, with x the received model, y_0 = x and steps k = 0..K-1:

    d_0     = grad f_i(x; B_0)                        B_0: all local data, or a batch
    d_k     = g(y_k; b) + (1 - a) (d_{k-1} - g(y_{k-1}; b))     same b and dropout key
    y_{k+1} = y_k - lr d_k - prox (y_k - x)
    send      delta_i = y_K - x

Server, with u in gradient units so that a learning-rate schedule is possible (the
paper's factor K is constant and cancels):

    u <- beta u - mean_i delta_i / lr,   x <- x - lr u

    paper   a       mu     beta
    here    storm   prox   server_momentum
"""

from typing import Literal, NamedTuple

import jax
import optax

from fedjax_mos.client.tools import (
    large_batch,
    local_scan,
    num_steps,
    step_at,
    tail,
)
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
    NonNegative,
    Params,
    Positive,
    Step,
    Unit,
)


class Server(NamedTuple):
    params: Params
    momentum: Params  # u


@cite("wang2023fedmos")
def fedmos(
    local: LocalWork,
    *,
    lr: Positive = 0.01,
    storm: Unit = 0.1,
    prox: NonNegative = 0.001,
    server_momentum: Unit = 0.8,
    first_batch: Literal["full", "step"] | Count = "full",
) -> Algorithm:
    """FedMoS as in the paper.

    `first_batch` is what d_0 is computed on: "full", all local data (Algorithm 1); a
    number of distinct examples (Corollary 1); or "step", the plan's own minibatch.
    No client state; one tree up, one down; D_i / B + 2 (K - 1) gradient evaluations.

    >>> import fedjax_mos as fm
    >>> fm.spec(fm.algorithms.fedmos, lr=0.05, first_batch=64).hp
    {'lr': 0.05, 'storm': 0.1, 'prox': 0.001, 'server_momentum': 0.8}
    """
    check_first_batch(first_batch)

    def init(params: Params, key: Key) -> tuple[Server, tuple]:
        return Server(params, optax.tree.zeros_like(params)), ()

    def client(
        x: Params, mine: tuple, view: ClientView, key: Key
    ) -> tuple[Params, tuple, Metrics]:
        plan = local.plan(view, key)
        first = step_at(plan, 0, view)

        def move(y: Params, d: Params, now: Step) -> Params:
            y_next = local.descend(y, d, lr, now)
            return jax.tree.map(lambda n, y, x: n - prox * (y - x), y_next, y, x)

        def step(
            carry: tuple[Params, Params, Params], now: Step
        ) -> tuple[tuple[Params, Params, Params], jax.Array]:
            y_prev, y, d = carry
            value, g = local.gradient(y, now)
            _, stale = local.gradient(y_prev, now)
            d = jax.tree.map(lambda g, d, s: g + (1 - storm) * (d - s), g, d, stale)
            return (y, move(y, d, now), d), value

        if first_batch == "full":
            value, d = local.full_gradient(x, view, key)
        elif first_batch == "step":
            value, d = local.gradient(x, first)
        else:
            batch = large_batch(view, key, first_batch)
            value, d = local.gradient(x, first._replace(batch=batch))
        carry = (x, move(x, d, first), d)
        (_, y, _), values = local_scan(step, carry, view, tail(plan))
        loss = (value + values.sum()) / num_steps(plan)
        return optax.tree.sub(y, x), mine, {"loss": loss}

    def server(state: Server, agg: Aggregate) -> Server:
        u = jax.tree.map(
            lambda u, delta: server_momentum * u - delta / lr, state.momentum, agg.mean
        )
        return Server(optax.tree.add_scale(state.params, -lr, u), u)

    return Algorithm(init, (Exchange(lambda s: s.params, client, server),))


def check_first_batch(first_batch: str | int) -> None:
    """Raise a ValueError for anything but "full", "step" or a positive number."""
    named = first_batch in ("full", "step")
    if not named and not (isinstance(first_batch, int) and first_batch >= 1):
        raise ValueError(
            f"first_batch must be 'full', 'step' or a positive integer: "
            f"got {first_batch!r}"
        )
