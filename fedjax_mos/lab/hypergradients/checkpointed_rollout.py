"""Many rounds whose gradient needs little memory.

Rounds go in about sqrt(T) segments of about sqrt(T) rounds. Only the states at the
borders are kept; the way back computes a segment again, keeping the states between its
rounds, and then every round again. Memory is for 2 sqrt(T) states and what one round
keeps; every round is computed three times.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.engine.rollout import rollout
from fedjax_mos.types import FederatedData, Key, Params, RoundState, Simulation


def checkpointed_rollout(
    sim: Simulation, data: FederatedData, state: RoundState, key: Key, rounds: int
) -> tuple[RoundState, Params]:
    """`rounds` rounds whose gradient needs O(sqrt(rounds)) states of memory.

    Returns the last state and the server's parameters at the `borders`.
    """

    def advance(length: int, state: RoundState, _: None) -> tuple[RoundState, Params]:
        after = rollout(sim, data, state, key, length, remat=True)[0]
        return after, after.server.params

    length = segment_length(rounds)
    segment = jax.checkpoint(partial(advance, length), prevent_cse=False)
    state, path = jax.lax.scan(segment, state, None, length=rounds // length)
    if rest := rounds % length:
        state, last = advance(rest, state, None)
        path = jax.tree.map(lambda p, leaf: jnp.append(p, leaf[None], 0), path, last)
    return state, path


def segment_length(rounds: int) -> int:
    """About sqrt(rounds); a divisor if there is one near, for a shorter program."""
    root = math.isqrt(rounds)
    near = range(max(root // 2, 1), 2 * root + 1)
    return min(near, key=lambda length: (rounds % length, abs(length - root)))


def borders(rounds: int) -> np.ndarray:
    """The rounds at which `checkpointed_rollout` reports."""
    length = segment_length(rounds)
    return np.minimum(np.arange(length, rounds + length, length), rounds)
