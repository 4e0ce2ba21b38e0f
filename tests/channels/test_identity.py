"""Messages as they are, and the price of a dense one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.channels.identity import bits_per_number
from fedjax_mos.types import Wire
from tests.channels.delivery import KEY, D


def test_identity_keeps_the_price_of_upstream():
    """A cost set by the broadcast must survive a per-client identity."""
    wire = Wire(jnp.ones(D), jnp.uint32(7), jnp.array(True))
    out, _ = fm.channels.identity().send((), wire, KEY, None)
    assert out is wire


def test_a_message_beyond_32_bits_is_refused():
    """2^32 bits would wrap around to a free message."""
    huge = np.broadcast_to(np.float32(0), 2**27)
    refused = "must have at most 4294967295 bits: got 4294967296"
    with pytest.raises(ValueError, match=refused):
        fm.channels.dense(huge)
    with pytest.raises(ValueError, match=refused):  # it might travel
        jax.eval_shape(lambda flag: fm.channels.dense(huge, flag), jnp.array(False))
    assert fm.channels.dense(huge, False).bits == 0


MESSAGE = {
    "model": {"w": jnp.ones((2, 3)), "b": jnp.ones(2)},
    "copy": (jnp.ones(5), jnp.ones(())),
}
TRAVELS = {
    "all": (True, 14),
    "nothing": (False, 0),
    "a part": ({"model": True, "copy": False}, 8),
    "a part of a part": ({"model": {"w": False, "b": True}, "copy": True}, 8),
    "leaf by leaf": ({"model": {"w": True, "b": False}, "copy": (False, True)}, 7),
}


@pytest.mark.parametrize("name", TRAVELS)
def test_only_what_travels_is_paid_for(name):
    """A prefix tree of booleans says so, written out or traced."""
    travels, numbers = TRAVELS[name]
    wire = fm.channels.dense(MESSAGE, travels)
    assert wire.value is MESSAGE and wire.fired is None
    assert int(wire.bits) == 32 * numbers and wire.bits.dtype == jnp.uint32
    flags = jax.tree.map(jnp.asarray, travels)
    traced = jax.jit(lambda flags: fm.channels.dense(MESSAGE, flags).bits)(flags)
    assert int(traced) == 32 * numbers and traced.dtype == jnp.uint32


def test_travels_must_be_a_prefix():
    """A flag of nothing would let a part travel for free."""
    with pytest.raises(ValueError):
        fm.channels.dense(MESSAGE, {"model": True})


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        ("int8", 8),
        ("bfloat16", 16),
        ("float16", 16),
        ("float32", 32),
        ("int32", 32),
        ("float64", 32),
        ("int64", 32),
        ("complex64", 32),
    ],
)
def test_a_number_costs_the_bits_of_its_type(dtype, bits):
    """At most 32: double precision is for checking, nobody sends it."""
    assert bits_per_number(jnp.dtype(dtype)) == bits


def test_a_message_of_several_types():
    """Every part is paid for by its own type, written out or traced."""
    message = {
        "half": jnp.ones((2, 3), jnp.bfloat16),
        "full": jnp.ones(5),
        "flags": jnp.ones(4, jnp.int8),
    }
    assert int(fm.channels.dense(message).bits) == 16 * 6 + 32 * 5 + 8 * 4
    some = {"half": True, "full": False, "flags": True}
    assert int(fm.channels.dense(message, some).bits) == 16 * 6 + 8 * 4
    flags = jax.tree.map(jnp.asarray, some)
    traced = jax.jit(lambda flags: fm.channels.dense(message, flags).bits)(flags)
    assert int(traced) == 16 * 6 + 8 * 4


def test_a_large_message_of_half_numbers_fits():
    """The limit is one of bits, not of numbers."""
    half = np.broadcast_to(jnp.bfloat16(0), 2**27)
    assert int(fm.channels.dense(half).bits) == 2**31
