"""NAME: how it changes a message, in one line.

Authors, venue year [key of references.bib].

One client's message v_t (or the broadcast), with m_t the channel's memory:

    deliver   o_t = ...
    keep      m_{t+1} = ...
    bits      ...

Use it as `uplink=name`, or `uplink=spec(name, keep=0.9)`; so with `downlink` and
`broadcast`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.components import cite
from fedjax_mos.types import Channel, Key, PyTree, Unit, Wire


class Memory(NamedTuple):
    average: PyTree  # m, of the message's shape; () if there is nothing to keep


@cite("key_of_the_paper")  # an entry of references.bib
def name(*, keep: Unit = 0.9) -> Channel:
    """NAME. Trees of memory at each end; biased or not.

    Options are keyword-only. A float (here with its range) is a hyperparameter that can
    be swept and may be traced; an int, a bool or a Literal decides shapes and code.
    """

    def init(value: PyTree) -> Memory:
        # `value` is all zeros, of the message's shape.
        return Memory(optax.tree.zeros_like(value))

    def send(
        state: Memory, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, Memory]:
        # ONE client's message: wire.value, which costs wire.bits so far. `context` is
        # what the client received this round. The key is for whoever draws.
        average = jax.tree.map(
            lambda m, v: keep * m + (1 - keep) * v, state.average, wire.value
        )
        # Exact bits, as uint32: here one half precision number in place of each.
        bits = (wire.bits // 2).astype(jnp.uint32)
        return Wire(average, bits), Memory(average)

    return Channel(init, send)


# A compressor without memory is simpler: a function (value, key) -> Wire. Then
# `plain(codec)` is the channel, and `error_feedback(plain(codec))` the one that makes
# up for what was lost (fedjax_mos.channels).
