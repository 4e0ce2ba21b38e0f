"""Diagnostics of what compression and message rules change, round by round.

The ratios of Assumption C.1 of NLA/AA [anonymous2024bidirectional]. With D_i what
client i sends of the server's model now, e_i its residual, C what the uplink makes of a
message without any memory, r_i what its rule compares with and M the clients for whom
the rule applies (all m clients are asked):

    compression_ratio   |C(mean_i (D_i + e_i)) - mean_i C(D_i + e_i)| / |mean_i D_i|
    rule_ratio          |mean_{i in M} (C(D_i + e_i) - r_i)| / |mean_i D_i|

(C.14) bounds the first by gamma, (C.15) the second by lambda. Zero without a codec and
where no rule applies.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.channels.feedback import Feedback
from fedjax_mos.channels.identity import dense
from fedjax_mos.channels.rules import Accelerated, Lazy
from fedjax_mos.types import Channel, ChannelState, Key, Metrics, PyTree, Up

RATIOS = ("compression_ratio", "rule_ratio")


def parts(
    uplink: Channel, state: ChannelState, message: Up, got: PyTree, key: Key
) -> tuple[PyTree, jax.Array]:
    """Of a client: (D, D + e, C(D + e), C(D + e) - r or 0), whether a rule applies."""
    wire = dense(message)
    fired = uplink.send(state, wire, key, got)[0].fired
    feedback, rule = _within(state, Feedback), _within(state, (Lazy, Accelerated))
    whole = message if feedback is None else optax.tree.add(message, feedback.error)
    sent = alone(uplink, whole, got, key)
    if fired is None or rule is None:
        return (message, whole, sent, optax.tree.zeros_like(sent)), jnp.zeros((), bool)
    change = jax.tree.map(
        lambda c, r: jnp.where(fired, c - r, 0), sent, _reference(rule)
    )
    return (message, whole, sent, change), fired


def alone(uplink: Channel, message: Up, got: PyTree, key: Key) -> Up:
    """C(message): a memory that is empty adds nothing, and no rule applies."""
    return uplink.send(uplink.init(message), dense(message), key, got)[0].value


def ratios(means: PyTree, fired: jax.Array, whole: Up) -> Metrics:
    """From the means over all clients of their parts, and C of that of D + e."""
    message, _, sent, change = means
    size = _norm(message)
    # The mean over M: that over all clients times m / |M|.
    share = jnp.maximum(fired.mean(dtype=size.dtype), 1 / len(fired))
    found = _norm(optax.tree.sub(whole, sent)), _norm(change) / share
    return {
        name: jnp.where(size > 0, value / jnp.where(size > 0, size, 1), 0)
        for name, value in zip(RATIOS, found, strict=True)
    }


def _reference(rule: Lazy | Accelerated) -> PyTree:
    if isinstance(rule, Accelerated):
        return rule.previous
    return rule.last if rule.raw == () else rule.raw


def _within(state: ChannelState, kind: Any) -> Any:
    """The memory of a kind in a channel's state, which channels inside it add to."""
    if isinstance(state, kind):
        return state
    inner = getattr(state, "inner", None)
    return None if inner is None else _within(inner, kind)


def _norm(a: PyTree) -> jax.Array:
    return jnp.sqrt(optax.tree.vdot(a, a))
