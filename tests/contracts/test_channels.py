"""What every channel promises, over the table."""

from functools import cache
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.types import Channel, Wire
from tests.contracts import component_tables as tables
from tests.contracts.component_tables import ALL_CHANNELS

KEY = jax.random.key(4)
channels = pytest.mark.parametrize("name", ALL_CHANNELS)


def test_every_channel_of_the_catalog_has_a_row():
    """A name that can be typed keeps every contract."""
    tables.check_rows(
        tables.CHANNELS, tables.CHANNEL_VARIANTS, catalog.CHANNELS, "CHANNELS"
    )


class Received(NamedTuple):
    threshold: jax.Array


def message(seed):
    """Twelve numbers in two tensors, none of them zero."""
    rng = np.random.default_rng(seed)
    shapes = {"w": (3, 3), "b": (3,)}
    return {n: jnp.asarray(rng.normal(size=s), jnp.float32) for n, s in shapes.items()}


class Sending:
    """A row's channel: three messages, of which the second repeats the first."""

    def __init__(self, name):
        row, self.channel = ALL_CHANNELS[name], tables.channel_of(name)
        self.context = row.context and Received(jnp.float32(row.context))
        self.messages = [message(0), message(0), message(1)]
        self.start = self.channel.init(jax.tree.map(jnp.zeros_like, message(0)))
        self.keys = jax.random.split(KEY, 3)
        self.traces = 0
        self.jitted = jax.jit(self.counted)

    def counted(self, *args):
        self.traces += 1
        return self.send(*args)

    def send(self, state, value, key):
        return self.channel.send(state, fm.channels.dense(value), key, self.context)

    def one_after_another(self, send):
        """The wires and the memories after each."""
        state, wires, states = self.start, [], []
        for value, key in zip(self.messages, self.keys, strict=True):
            wire, state = send(state, value, key)
            wires.append(wire)
            states.append(state)
        return wires, states


sending = cache(Sending)


@channels
def test_bits_are_those_of_the_row(name):
    """The first message, the same once more, another one: a count by hand."""
    row, made = ALL_CHANNELS[name], sending(name)
    wires, _ = made.one_after_another(made.jitted)
    assert tuple(int(wire.bits) for wire in wires) == row.bits
    for wire in wires:
        assert isinstance(wire, Wire)
        assert wire.bits.dtype == jnp.uint32 and wire.bits.shape == ()
        assert (wire.fired is not None) == row.rule
        assert wire.fired is None or wire.fired.dtype == bool
        chex.assert_trees_all_equal_shapes_and_dtypes(wire.value, message(0))


@channels
def test_the_memory_keeps_its_shape(name):
    """Clients' memories are rows of the state; a run is a scan."""
    row, made = ALL_CHANNELS[name], sending(name)
    assert isinstance(made.channel, Channel)
    _, states = made.one_after_another(made.jitted)
    for state in states:
        chex.assert_trees_all_equal_shapes_and_dtypes(state, made.start)
    kept = [leaf for leaf in jax.tree.leaves(made.start) if leaf.ndim]
    assert sum(leaf.size for leaf in kept) == 12 * row.trees


@channels
def test_delivery_is_pure_and_compiles_once(name):
    """Hidden state would make equal calls differ; a weak type would recompile."""
    made = sending(name)
    before = made.traces
    once, again = (made.one_after_another(made.jitted) for _ in range(2))
    chex.assert_trees_all_equal(once, again)
    assert made.traces <= before + 1
    first, _ = made.jitted(made.start, made.messages[0], made.keys[0])
    other, _ = made.jitted(made.start, made.messages[0], made.keys[1])
    same = all(map(np.array_equal, *map(jax.tree.leaves, (first.value, other.value))))
    assert same != ALL_CHANNELS[name].draws


@channels
def test_delivery_is_the_same_without_jit(name):
    """Compilation must not change what arrives, what is kept or what it costs."""
    made = sending(name)
    fast, slow = (made.one_after_another(send) for send in (made.jitted, made.send))
    chex.assert_trees_all_close(fast, slow, rtol=1e-6, atol=1e-7)


@channels
def test_vmap_over_clients_is_a_loop(name):
    """Clients are a batch axis: one's message must not reach another's memory."""
    made = sending(name)
    _, states = made.one_after_another(made.jitted)
    lanes = [
        (made.start, message(0), made.keys[0]),
        (states[0], message(0), made.keys[1]),
        (states[1], message(1), made.keys[2]),
        (states[2], message(2), made.keys[0]),
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)
    mapped = jax.jit(jax.vmap(made.send))(*stacked)
    looped = [made.jitted(*lane) for lane in lanes]
    expected = jax.tree.map(lambda *leaves: jnp.stack(leaves), *looped)
    chex.assert_trees_all_close(mapped, expected, rtol=1e-6, atol=1e-7)
