"""Channels with memory of what was lost, or of what the receiver holds.

`error_feedback` is for displacements (the receiver adds them up), `difference` for
models (the receiver replaces them): the difference to the receiver's copy already
contains the error, so it needs no second memory.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import Channel, ChannelState, Codec, Key, PyTree, Wire


class Feedback(NamedTuple):
    error: PyTree  # e
    inner: ChannelState


class Copy(NamedTuple):
    copy: PyTree  # what the receiver holds
    met: jax.Array
    inner: ChannelState


class Last(NamedTuple):
    value: PyTree
    met: jax.Array
    inner: ChannelState


def plain(codec: Codec) -> Channel:
    """A codec as a channel without memory."""

    def send(state: tuple, wire: Wire, key: Key, context: PyTree) -> tuple[Wire, tuple]:
        return codec(wire.value, key), state

    return Channel(lambda value: (), send)


def error_feedback(inner: Channel) -> Channel:
    """a = value + e; deliver o = inner(a); e <- a - o. One tree.

    Seide et al., Interspeech 2014 [seide2014onebit].
    """

    def init(value: PyTree) -> Feedback:
        return Feedback(optax.tree.zeros_like(value), inner.init(value))

    def send(
        state: Feedback, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, Feedback]:
        target = optax.tree.add(wire.value, state.error)
        out, after = inner.send(state.inner, Wire(target, wire.bits), key, context)
        return out, Feedback(optax.tree.sub(target, out.value), after)

    return Channel(init, send)


def difference(inner: Channel) -> Channel:
    """Send the change against the receiver's copy: copy <- copy + inner(value - copy).

    The first contact is dense. One tree, at both ends.
    """

    def init(value: PyTree) -> Copy:
        zeros = optax.tree.zeros_like(value)
        return Copy(zeros, jnp.zeros((), bool), inner.init(value))

    def send(state: Copy, wire: Wire, key: Key, context: PyTree) -> tuple[Wire, Copy]:
        change = optax.tree.sub(wire.value, state.copy)
        sent = Wire(change, wire.bits)
        out, after = inner.send(state.inner, sent, key, state.copy)
        met = state.met
        value = optax.tree.where(met, optax.tree.add(state.copy, out.value), wire.value)
        bits = jnp.where(met, out.bits, wire.bits)
        fired = None if out.fired is None else out.fired & met
        after = optax.tree.where(met, after, state.inner)
        return Wire(value, bits, fired), Copy(value, jnp.ones((), bool), after)

    return Channel(init, send)


def extrapolated(inner: Channel) -> Channel:
    """Deliver o_t + (o_t - o_{t-1}); both ends keep the plain o_t. One tree."""

    def init(value: PyTree) -> Last:
        zeros = optax.tree.zeros_like(value)
        return Last(zeros, jnp.zeros((), bool), inner.init(value))

    def send(state: Last, wire: Wire, key: Key, context: PyTree) -> tuple[Wire, Last]:
        out, after = inner.send(state.inner, wire, key, context)
        ahead = jax.tree.map(lambda o, last: 2 * o - last, out.value, state.value)
        value = optax.tree.where(state.met, ahead, out.value)
        sent = Wire(value, out.bits, out.fired)
        return sent, Last(out.value, jnp.ones((), bool), after)

    return Channel(init, send)
