"""The client that most methods share: local SGD on an objective."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.local import walk
from fedjax_mos.losses import Memory, Objective
from fedjax_mos.types import (
    ClientView,
    ClientWork,
    Key,
    LocalWork,
    Metrics,
    Params,
    Scalar,
    Step,
)


def sgd_client(
    local: LocalWork, objective: Objective, lr: Scalar
) -> tuple[Callable[[Params], Any], ClientWork]:
    """y_{k+1} = y_k - lr g(y_k), sending y_K - x: (initial memory, client)."""

    def memory(params: Params) -> Any:
        if not objective.keeps_model:
            return ()
        return Memory(optax.tree.zeros_like(params), jnp.zeros((), bool))

    def client(
        x: Params, mine: Any, view: ClientView, key: Key
    ) -> tuple[Params, Any, Metrics]:
        gradient = local.gradient_of(objective.build(local, x, mine, view))

        def direction(y: Params, now: Step) -> tuple[jax.Array, Params]:
            return gradient(y, now.batch, now.key)

        y, _, metrics = walk(local, direction, x, view, key, lr)
        if objective.keeps_model:
            mine = Memory(y, jnp.ones((), bool))
        return optax.tree.sub(y, x), mine, metrics

    return memory, client
