"""Rounds whose gradient looks back over a window only.

Where rounds do not contract, the derivative of the last loss by the first state grows
exponentially and says nothing. In windows of h rounds it stays tame: what a window
begins from is taken as given, and the loss at its end counts,

    F(h) = mean over windows w of objective(x_w(h)),   x_w from a given x_{w-1},

which is not the loss after the last round, but has a gradient for the numbers of every
round. Whoever descends it must look at the loss itself.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.lab.hypergradients.checkpointed_rollout import checkpointed_rollout
from fedjax_mos.types import FederatedData, Key, Params, RoundState, Simulation


def windowed_rollout(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    rounds: int,
    window: int,
    begin: Callable[[RoundState], RoundState],
    measure: Callable[[RoundState], jax.Array],
) -> tuple[jax.Array, jax.Array, Params]:
    """The mean of `measure` over the windows' ends, the last one, parameters there.

    Every window starts with `begin(state)`.
    """

    def advance(
        length: int, state: RoundState, _: None
    ) -> tuple[RoundState, tuple[jax.Array, Params]]:
        given = jax.tree.map(jax.lax.stop_gradient, state)._replace(hp=state.hp)
        after, _path = checkpointed_rollout(sim, data, begin(given), key, length)
        return after, (measure(after), after.server.params)

    whole = jax.checkpoint(partial(advance, window), prevent_cse=False)
    state, (values, path) = jax.lax.scan(whole, state, None, length=rounds // window)
    if rest := rounds % window:
        state, last = advance(rest, state, None)
        values, path = jax.tree.map(
            lambda all, leaf: jnp.append(all, leaf[None], 0), (values, path), last
        )
    return values.mean(), values[-1], path


def window_ends(rounds: int, window: int) -> np.ndarray:
    """The rounds at which `windowed_rollout` reports."""
    return np.minimum(np.arange(window, rounds + window, window), rounds)
