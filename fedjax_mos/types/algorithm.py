"""Local work and the algorithms that are written with it."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax

from fedjax_mos.types.channel import Down, Up
from fedjax_mos.types.data import (
    Batch,
    ClientView,
    Key,
    Metrics,
    Params,
    PyTree,
    Scalar,
)

#: What an algorithm keeps at the server, with a field `params`; it chooses the type.
Server = Any
#: What an algorithm keeps for each client; () when empty.
Mine = Any


class Plan(NamedTuple):
    """One client's minibatches of a round."""

    rows: jax.Array  #: [K, B] positions in the store, -1 for padding
    active: jax.Array | None  #: [K] bool; None: every step is active
    epoch: jax.Array  #: [K] int
    keys: jax.Array  #: [K] one key per step, for dropout and augmentation


class Step(NamedTuple):
    """One entry of a plan with its examples: what happens "now" in a local step."""

    batch: Batch  #: its examples
    epoch: jax.Array  #: the client's epoch of this round, from 0
    key: Key  #: for dropout and augmentation


class Loss(Protocol):
    def __call__(self, params: Params, batch: Batch, key: Key | None, /) -> jax.Array:
        """Mean loss over the rows of `batch` whose mask is True.

        Without a key in evaluation mode: no dropout.
        """
        ...


class Gradient(Protocol):
    def __call__(self, params: Params, now: Step, /) -> tuple[jax.Array, Params]:
        """Loss and gradient on a step's minibatch, augmented and clipped as asked.

        Two calls with one `now` share examples, augmentation and dropout.
        """
        ...


class FullGradient(Protocol):
    def __call__(
        self, params: Params, view: ClientView, key: Key, /
    ) -> tuple[jax.Array, Params]:
        """Loss and gradient over all of a client's examples."""
        ...


class Descend(Protocol):
    def __call__(
        self, params: Params, direction: Params, lr: Scalar, now: Step, /
    ) -> Params:
        """One step against `direction`, with decays applied as asked."""
        ...


class MakePlan(Protocol):
    def __call__(self, view: ClientView, key: Key, /) -> Plan:
        """Draw one client's minibatches for this round."""
        ...


class Forward(Protocol):
    def __call__(
        self, params: Params, h: PyTree, start: int, key: Key | None, /
    ) -> tuple[jax.Array, ...]:
        """Outputs of a staged model's stages from `start` on: [-1] logits."""
        ...


class LocalWork(NamedTuple):
    """The tools of a client, the same for every algorithm."""

    plan: MakePlan  #: draws the minibatches of a round
    gradient: Gradient  #: loss and gradient on a step's minibatch
    full_gradient: FullGradient  #: the same on all of a client's examples
    descend: Descend  #: one local step, with all decays
    loss: Loss  #: what is minimised, over a batch
    gradient_of: Callable[[Loss], Gradient]  #: of another objective, same treatment
    move: Descend  #: `descend` without weight decay
    decayed: Callable[[Params, Params], Params]  #: (direction, y) -> + weight_decay y
    path_length: Callable[[Plan, Scalar], jax.Array]  #: sum over active steps of lr_k
    forward: Forward | None  #: for methods that look inside the model


class Aggregate(NamedTuple):
    """All that the server ever learns about a cohort, and a key of its own."""

    mean: Up  #: sum over slots of weight * message
    sum: Up  #: sum over live slots of the message
    live: jax.Array  #: number of live slots
    num_clients: int  #: N
    key: Key  #: for a server that draws: by (seed, round, exchange)


class ClientWork(Protocol):
    def __call__(
        self, down: Down, mine: Mine, view: ClientView, key: Key, /
    ) -> tuple[Up, Mine, Metrics]:
        """One client's part: message received, own state -> message, own state.

        The key depends on (seed, round, client) and is the same in every exchange of
        a round. The tools fold a purpose into it; do so before drawing yourself.
        """
        ...


class Exchange(NamedTuple):
    """One trip down, local work, one trip up."""

    broadcast: Callable[[Server], Down]  #: the server's state -> the message down
    client: ClientWork  #: what a client makes of it
    server: Callable[[Server, Aggregate], Server]  #: the server's next state
    #: Which parts of the messages (down, up) travel, as trees of booleans that are
    #: prefixes of theirs; None: all. What does not travel costs nothing.
    travels: Callable[[Server], tuple[PyTree, PyTree]] | None = None


class Algorithm(NamedTuple):
    """A method: its initial state and its exchanges within one round."""

    init: Callable[[Params, Key], tuple[Server, Mine]]  #: Server has a field `params`
    exchanges: tuple[Exchange, ...]  #: in their order
