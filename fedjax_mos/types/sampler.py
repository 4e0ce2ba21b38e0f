"""Who takes part in a round, decided on the device or with the host's help."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from fedjax_mos.types.algorithm import Loss, Server
from fedjax_mos.types.data import FederatedData, Key

#: What a sampler remembers; () when empty.
SamplerState = Any


class SamplerTools(NamedTuple):
    """What every sampler is built with."""

    cohort: int  #: M, the clients that a round shall have
    loss: Loss  #: of the model, in evaluation mode when it is given no key


class SamplerView(NamedTuple):
    """What a sampler sees when it chooses."""

    round: jax.Array  #: the round's number, from 0
    server: Server  #: the algorithm's state before the round; `.params` is the model
    data: FederatedData  #: all clients' examples


class Cohort(NamedTuple):
    """A fixed number of slots; a live client appears in exactly one of them."""

    ids: jax.Array  #: [M] int
    weights: jax.Array  #: [M] float; the engine normalises nothing
    mask: jax.Array  #: [M] bool, False for a dead slot
    places: jax.Array | None = None  #: [M] where their rows lie; None: at their ids


class Sample(Protocol):
    def __call__(
        self, state: SamplerState, view: SamplerView, key: Key, /
    ) -> tuple[Cohort, SamplerState]:
        """Choose this round's cohort."""
        ...


class Sampler(NamedTuple):
    """Who takes part, and with which weight."""

    #: the state before the first round
    init: Callable[[SamplerView, Key], SamplerState]
    sample: Sample  #: chooses a cohort
    takes_all: bool = False  #: every client has a slot, whatever the cohort


class Updated(NamedTuple):
    """What the host found out: the sampler's next state, and what learning it cost."""

    sampler: SamplerState  #: the sampler's next state
    bits_up: int = 0  #: what clients sent for it
    bits_down: int = 0  #: what they received for it
    state: Any = None  #: the simulation's own, where extra rounds have moved it


class HostUpdate(NamedTuple):
    """Work on the host that replaces the state of a sampler between rounds."""

    compute: Callable[[FederatedData, Any], Updated]  #: (data, state of ONE simulation)
    every: int | None = None  #: rounds between updates; None: one, after the warm-up
    warm_up: int = 0  #: the first `warm_up` rounds use the sampler `warm`
    warm: Sampler | None = None  #: the sampler of the warm-up
    #: Rounds with `warm` before the first, which count as none; whether their model is
    #: kept. The sampler's state then has a `key`, the data of what they draw with.
    extra: int = 0
    keep: bool = False  #: whether the extra rounds' model is kept


class HostAssisted(NamedTuple):
    """A sampler and its work on the host."""

    sampler: Sampler  #: what chooses between two updates
    update: HostUpdate  #: the work on the host
    #: Whether it reads what `engine.tracking` keeps of each client's last message.
    needs_last_message: bool = False
