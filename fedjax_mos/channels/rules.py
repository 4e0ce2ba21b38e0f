"""Rules that repeat or reinforce a message that has hardly changed.

Anonymous submission, 2024 [anonymous2024bidirectional] (NLA: a lazy message, AA: an
accelerated one); Chen et al., NeurIPS 2018 [chen2018lag].

With m the inner channel's output and r the reference, a rule fires iff

    kappa > 0  and  |r| > 0  and  |m - r| <= kappa |r|.

Its flag costs one bit in every message.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.components import cite
from fedjax_mos.types import Channel, ChannelState, Key, PyTree, Scalar, Wire

Reference = Literal["transmitted", "raw_prev", "literal"]
REFERENCES = ("transmitted", "raw_prev", "literal")


class Lazy(NamedTuple):
    last: PyTree  # last transmitted message; () unless it may be delivered
    raw: PyTree  # previous message, transmitted or not; () unless it is the reference
    inner: ChannelState


class Accelerated(NamedTuple):
    previous: PyTree
    inner: ChannelState


def lazy(
    inner: Channel, kappa: Scalar, reference: Reference = "transmitted"
) -> Channel:
    """NLA: where the rule fires send only the flag and deliver the last message again.

    The reference is the last *transmitted* message; "raw_prev" compares with the
    previous one, sent or not, and delivers the last transmitted. "literal" is what the
    paper's Examples 1 to 3 print: it compares with the previous message and delivers
    it, though after two skips in a row the receiver cannot know it. One tree (raw_prev:
    two).
    """
    if reference not in REFERENCES:
        raise ValueError(
            f"reference must be one of {', '.join(REFERENCES)}: got {reference!r}"
        )
    keep_raw, keep_last = reference != "transmitted", reference != "literal"

    def init(value: PyTree) -> Lazy:
        zeros = optax.tree.zeros_like(value)
        last, raw = zeros if keep_last else (), zeros if keep_raw else ()
        return Lazy(last, raw, inner.init(value))

    def send(state: Lazy, wire: Wire, key: Key, context: PyTree) -> tuple[Wire, Lazy]:
        out, after = inner.send(state.inner, wire, key, context)
        fires = _fires(kappa, out.value, state.raw if keep_raw else state.last)
        again = state.last if keep_last else state.raw
        value = optax.tree.where(fires, again, out.value)
        bits = jnp.where(fires, 1, out.bits + 1).astype(jnp.uint32)
        last, raw = value if keep_last else (), out.value if keep_raw else ()
        return Wire(value, bits, fires), Lazy(last, raw, after)

    return Channel(init, send)


def accelerated(inner: Channel, kappa: Scalar) -> Channel:
    """AA: where the rule fires deliver m + (previous m). Always sent. One tree."""

    def init(value: PyTree) -> Accelerated:
        return Accelerated(optax.tree.zeros_like(value), inner.init(value))

    def send(
        state: Accelerated, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, Accelerated]:
        out, after = inner.send(state.inner, wire, key, context)
        fires = _fires(kappa, out.value, state.previous)
        value = jax.tree.map(
            lambda m, r: m + jnp.where(fires, r, 0), out.value, state.previous
        )
        return Wire(value, out.bits + 1, fires), Accelerated(out.value, after)

    return Channel(init, send)


def extrapolated_near(inner: Channel, kappa: Scalar) -> Channel:
    """AA on models: o_t + (o_t - o_{t-1}) where the rule fires, else o_t. One tree.

    Both ends keep the plain o_t. The first contact has no flag and no extrapolation.
    """

    def init(value: PyTree) -> Accelerated:
        return Accelerated(optax.tree.zeros_like(value), inner.init(value))

    def send(
        state: Accelerated, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, Accelerated]:
        out, after = inner.send(state.inner, wire, key, context)
        fires = _fires(kappa, out.value, state.previous)
        value = jax.tree.map(
            lambda o, last: o + jnp.where(fires, o - last, 0), out.value, state.previous
        )
        flag = (_square(state.previous) > 0).astype(jnp.uint32)
        return Wire(value, out.bits + flag, fires), Accelerated(out.value, after)

    return Channel(init, send)


def lazy_on_copy(inner: Channel, kappa: Scalar) -> Channel:
    """NLA inside `difference`: skip a change m with |m| <= kappa |copy|. No memory."""

    def send(
        state: ChannelState, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, ChannelState]:
        out, after = inner.send(state, wire, key, context)
        size, copy = _square(out.value), _square(context)
        fires = (kappa > 0) & (copy > 0) & (size <= kappa**2 * copy)
        value = jax.tree.map(lambda m: jnp.where(fires, 0, m), out.value)
        bits = jnp.where(fires, 1, out.bits + 1).astype(jnp.uint32)
        return Wire(value, bits, fires), after

    return Channel(inner.init, send)


@cite("chen2018lag")
def lag_worker(*, skip: bool = True) -> Channel:
    """LAG's worker: send the change of the message, or nothing if it is small.

    The received message carries the threshold on |change|^2; `skip=False` always
    sends (the server rule decides by contact). No flag: silence is the message.
    """

    def init(value: PyTree) -> PyTree:
        return optax.tree.zeros_like(value)

    def send(
        state: PyTree, wire: Wire, key: Key, context: PyTree
    ) -> tuple[Wire, PyTree]:
        if skip and not hasattr(context, "threshold"):
            raise ValueError(
                "the received message must have a field threshold, as that of lag has, "
                f"for lag_worker: got {type(context).__name__}"
            )
        change = optax.tree.sub(wire.value, state)
        fires = _square(change) <= context.threshold if skip else jnp.zeros((), bool)
        value = jax.tree.map(lambda c: jnp.where(fires, 0, c), change)
        bits = jnp.where(fires, 0, wire.bits).astype(jnp.uint32)
        return Wire(value, bits, fires), optax.tree.where(fires, state, wire.value)

    return Channel(init, send)


def _fires(kappa: Scalar, message: PyTree, reference: PyTree) -> jax.Array:
    away, size = _square(optax.tree.sub(message, reference)), _square(reference)
    return (kappa > 0) & (size > 0) & (away <= kappa**2 * size)


def _square(tree: PyTree) -> jax.Array:
    return optax.tree.vdot(tree, tree)
