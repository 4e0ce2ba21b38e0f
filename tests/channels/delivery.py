"""Messages sent one after another through a channel, and its NumPy counterparts."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm
from fedjax_mos.types import Channel

D, ROUNDS = 8, 30
KEY = jax.random.key(2)
DENSE = 32 * D
FRACTION, SPARSE = 0.25, 64 * 2  # two of eight entries, a value and an index each
KAPPAS = (0.0, 0.3, 1.0, 1.5, 3.0)


def walk(seed=0, rounds=ROUNDS, d=D):
    """Messages that hardly change, jump in every sixth round, and repeat once."""
    rng = np.random.default_rng(seed)
    steps = 0.1 * rng.normal(size=(rounds, d))
    steps[::6] = 2 * rng.normal(size=(len(steps[::6]), d))
    messages = np.cumsum(steps, axis=0)
    messages[11] = messages[10]
    return messages.astype(np.float32)


def deliver(make, messages, kappa=1.0, context=None):
    """Send `messages` one after another: wires [T], states [T]."""
    return jax.device_get(_scan(make)(messages, kappa, context))


@cache
def _scan(make):
    @jax.jit
    def go(messages, kappa, context):
        channel = make(kappa)

        def step(state, xs):
            message, key = xs
            wire, state = channel.send(state, fm.channels.dense(message), key, context)
            return state, (wire, state)

        start = channel.init(jnp.zeros_like(messages[0]))
        keys = jax.random.split(KEY, len(messages))
        return jax.lax.scan(step, start, (messages, keys))[1]

    return go


def close(got, expected, tolerance=1e-5):
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def top2(v):
    """Two of eight entries."""
    out = np.zeros_like(v)
    kept = np.argsort(-np.abs(v), kind="stable")[:2]
    out[kept] = v[kept]
    return out


def sparse():
    return fm.channels.plain(fm.channels.top_k(FRACTION))


def feedback(kappa):
    return fm.channels.error_feedback(sparse())


def change(kappa):
    return fm.channels.difference(sparse())


def on_copy(kappa):
    return fm.channels.difference(fm.channels.lazy_on_copy(sparse(), kappa))


class Count(NamedTuple):
    calls: jax.Array
    inner: object


def counting(inner):
    """`inner`, counting how often it was asked."""

    def send(state, wire, key, context):
        out, after = inner.send(state.inner, wire, key, context)
        return out, Count(state.calls + 1, after)

    return Channel(lambda value: Count(jnp.zeros((), int), inner.init(value)), send)
