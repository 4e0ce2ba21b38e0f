"""NAME: whom it chooses, in one line.

Authors, venue year [key of references.bib].

    P(client i is chosen) = ...        weight w_i = ...
    E[w_i] = p_i ?                     (p_i: client i's share of the examples)

Use it as `sampler=name`, or `sampler=spec(name, power=0.5)`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.samplers import merge_duplicates
from fedjax_mos.types import (
    Cohort,
    Key,
    NonNegative,
    Sampler,
    SamplerTools,
    SamplerView,
)


class State(NamedTuple):
    logits: jax.Array  # [N] log of the probabilities; () if there is nothing to keep


@cite("key_of_the_paper")  # an entry of references.bib
def name(tools: SamplerTools, *, power: NonNegative = 1.0) -> Sampler:
    """NAME. Unbiased or not; cost per round; what it keeps.

    Options are keyword-only. A float (here with its range) is a hyperparameter that can
    be swept and may be traced; an int, a bool or a Literal decides shapes and code.
    """
    # Known when the program is built: tools.cohort is M, the number of slots, and
    # tools.loss(params, batch, None) the model's loss in evaluation mode.
    cohort = tools.cohort

    def init(view: SamplerView, key: Key) -> State:
        # view.data.mass [N] is what clients count with, by default their examples.
        return State(power * jnp.log(view.data.mass))

    def sample(state: State, view: SamplerView, key: Key) -> tuple[Cohort, State]:
        # Besides the data there are view.round and view.server, the algorithm's state
        # before the round; view.server.params is the model.
        ids = jax.random.categorical(key, state.logits, shape=(cohort,))
        weights = jnp.full(cohort, 1 / cohort)
        # A cohort always has the same number of slots, and a client at most one live
        # one: draws of the same client become one, with the summed weight.
        return merge_duplicates(ids, weights), state

    return Sampler(init, sample)
