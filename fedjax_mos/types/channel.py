"""What travels between server and clients."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
from typing_extensions import TypeAliasType

from fedjax_mos.types.data import Key, PyTree

#: A message to the server; the algorithm chooses its type.
Up = Any
#: A message to a client; the algorithm chooses its type.
Down = Any
#: What a channel remembers; it chooses the type.
ChannelState = Any


class Wire(NamedTuple):
    """A value in transit and its exact cost."""

    value: PyTree  #: what arrives
    bits: jax.Array  #: uint32 scalar
    fired: jax.Array | None = None  #: whether a message rule applied; None: no rule


#: A compressor without memory.
Codec = TypeAliasType("Codec", Callable[[PyTree, Key], Wire])


class Send(Protocol):
    def __call__(
        self, state: ChannelState, wire: Wire, key: Key, context: PyTree, /
    ) -> tuple[Wire, ChannelState]:
        """Deliver one message. `context` is what the client received this round."""
        ...


class Channel(NamedTuple):
    """One client's pipe, or the shared one of a broadcast."""

    init: Callable[[PyTree], ChannelState]  #: argument: zeros of the message's shape
    send: Send  #: delivers one message, counted in bits
