"""Memory of what was lost or of what the receiver holds, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.types import Channel, Wire
from tests.channels.delivery import (
    DENSE,
    FRACTION,
    KAPPAS,
    KEY,
    ROUNDS,
    SPARSE,
    D,
    change,
    close,
    counting,
    deliver,
    feedback,
    sparse,
    top2,
    walk,
)

# ---- error feedback ------------------------------------------------------------------


INNER = {
    "identity": lambda kappa: fm.channels.identity(),
    "top_k": lambda kappa: sparse(),
    "random_k": lambda kappa: fm.channels.plain(fm.channels.random_k(FRACTION)),
    "sign": lambda kappa: fm.channels.plain(fm.channels.scaled_sign()),
    "quantise": lambda kappa: fm.channels.plain(fm.channels.quantise(4)),
    "lazy": lambda kappa: fm.channels.lazy(fm.channels.identity(), kappa),
    "lazy top_k": lambda kappa: fm.channels.lazy(sparse(), kappa),
    "lazy raw_prev": lambda kappa: fm.channels.lazy(sparse(), kappa, "raw_prev"),
    "accelerated": lambda kappa: fm.channels.accelerated(fm.channels.identity(), kappa),
    "accelerated sign": lambda kappa: fm.channels.accelerated(
        fm.channels.plain(fm.channels.scaled_sign()), kappa
    ),
    "both": lambda kappa: fm.channels.lazy(
        fm.channels.accelerated(sparse(), kappa), kappa
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_error_feedback_telescopes(name):
    """sum delivered + e_T = sum sent, or what is held back is lost (1e-4)."""
    messages = walk()

    @jax.jit
    @jax.vmap
    def sums(kappa):
        channel = fm.channels.error_feedback(INNER[name](kappa))

        def step(state, xs):
            wire, state = channel.send(state, fm.channels.dense(xs[0]), xs[1], None)
            return state, (wire.value, state.error, wire.fired)

        start = channel.init(jnp.zeros(D))
        keys = jax.random.split(KEY, ROUNDS)
        return jax.lax.scan(step, start, (messages, keys))[1]

    delivered, error, fired = jax.device_get(sums(jnp.array(KAPPAS)))
    total = np.cumsum(delivered, axis=1, dtype=np.float64) + error
    sent = np.cumsum(messages, axis=0, dtype=np.float64)
    scale = 1 + np.abs(delivered).sum(axis=(1, 2)).max()
    np.testing.assert_array_less(abs(total - sent), 1e-6 * scale)
    lossy = name != "identity"
    assert (np.abs(error[-1]).max() > 0.1) == lossy
    if fired is not None:
        assert not fired[0].any() and fired[-1].any()  # kappa = 0, kappa = 3


def test_error_feedback_is_its_definition():
    """a = m + e, o = C(a), e = a - o: an absent client's e would rest untouched."""
    messages, e = walk(3), np.zeros(D, np.float32)
    wires, states = deliver(feedback, messages)
    for t, message in enumerate(messages):
        a = message + e
        o = top2(a)
        e = a - o
        close(wires.value[t], o)
        close(states.error[t], e)
    assert set(wires.bits.tolist()) == {SPARSE} and wires.fired is None


# ---- difference ----------------------------------------------------------------------


def test_first_contact_is_dense_and_has_no_flag():
    """A client that holds nothing cannot use a change; it pays 32 bits a number."""

    def make(kappa):
        return fm.channels.difference(fm.channels.lazy_on_copy(sparse(), kappa))

    messages = np.stack([walk()[0]] * 4 + [100 * walk()[20]])
    wires, states = deliver(make, messages, kappa=0.1)
    close(wires.value[0], messages[0], 0)
    assert wires.bits.tolist() == [DENSE, 1, 1, 1, SPARSE + 1]
    assert wires.fired.tolist() == [False, True, True, True, False]
    close(wires.value[4], messages[0] + top2(messages[4] - messages[0]))
    close(states.copy, wires.value, 0)  # both ends hold what was delivered
    assert states.met.all()


def test_first_contact_leaves_the_inner_state_alone():
    """What the inner channel did with the dense model was never sent."""

    def make(kappa):
        return fm.channels.difference(counting(fm.channels.error_feedback(sparse())))

    _, states = deliver(make, walk())
    assert states.inner.calls.tolist() == list(range(ROUNDS))
    close(states.inner.inner.error[0], np.zeros(D), 0)


def test_a_rule_cannot_apply_at_first_contact():
    """The dense model was sent, whatever the rule thought: rates must not count it."""

    def make(kappa):
        def send(state, wire, key, context):
            return Wire(wire.value, jnp.uint32(1), jnp.ones((), bool)), state

        return fm.channels.difference(Channel(lambda value: (), send))

    wires, _ = deliver(make, walk()[:3])
    assert wires.fired.tolist() == [False, True, True]
    assert wires.bits.tolist() == [DENSE, 1, 1]


def test_difference_is_its_definition():
    """copy <- copy + C(value - copy); the copy is what is delivered."""
    messages = walk(5)
    wires, _ = deliver(change, messages)
    copy = messages[0]
    for t, message in enumerate(messages):
        copy = copy + top2(message - copy)
        close(wires.value[t], copy)
    assert wires.bits.tolist() == [DENSE] + [SPARSE] * (ROUNDS - 1)
    assert wires.fired is None


CODECS = {
    "top_k": lambda: fm.channels.top_k(FRACTION),
    "sign": lambda: fm.channels.scaled_sign(),
    # At most 16 bits: |C(v) - v| is below |v| / 100, so the error shrinks every time.
    "quantise": lambda: fm.channels.quantise(12),
}


@pytest.mark.parametrize("name", CODECS)
def test_difference_converges_to_a_constant(name):
    """A receiver that never reaches a standing model trains from a wrong one."""
    target = walk()[20]
    # First contact with zeros: from then on everything has to come compressed.
    messages = np.concatenate([np.zeros((1, D)), np.stack([target] * 60)])
    wires, _ = deliver(
        lambda kappa: fm.channels.difference(fm.channels.plain(CODECS[name]())),
        messages.astype(np.float32),
    )
    error = np.linalg.norm(wires.value - target, axis=1) / np.linalg.norm(target)
    assert error[0] == 1 and error[1] > 1e-4
    assert error[-1] < 1e-5


# ---- extrapolated --------------------------------------------------------------------


def test_extrapolated_delivers_ahead_and_keeps_the_copy():
    """The client starts ahead, but both ends must keep the plain copy."""

    def make(kappa):
        return fm.channels.extrapolated(fm.channels.difference(sparse()))

    messages = walk(7)
    plain, _ = deliver(change, messages)
    wires, states = deliver(make, messages)
    o = np.asarray(plain.value)
    close(wires.value[0], messages[0], 0)  # nothing to extrapolate from
    close(wires.value[1:], 2 * o[1:] - o[:-1])
    close(states.inner.copy, o)
    close(states.value, o)
    assert wires.bits.tolist() == plain.bits.tolist()

    def recipe(kappa):
        return fm.channels.aa_down(fraction=FRACTION, kappa=kappa, extrapolate=True)

    close(deliver(recipe, messages)[0].value, wires.value, 0)
