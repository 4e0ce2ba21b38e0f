"""Rules that repeat or reinforce a message, against NumPy and ALGORITHMS 8.4."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.channels.delivery import (
    DENSE,
    KAPPAS,
    KEY,
    ROUNDS,
    SPARSE,
    D,
    close,
    counting,
    deliver,
    feedback,
    on_copy,
    sparse,
    top2,
    walk,
)

# ---- lazy ----------------------------------------------------------------------------


def nla(messages, kappa, reference="transmitted"):
    """The rule in NumPy: delivered values and whether it fired."""
    last = raw = np.zeros(D)
    values, flags = [], []
    for m in messages.astype(np.float64):
        r = last if reference == "transmitted" else raw
        size = np.linalg.norm(r)
        fires = kappa > 0 and size > 0 and np.linalg.norm(m - r) <= kappa * size
        again = raw if reference == "literal" else last
        values.append(again if fires else m)
        last, raw = values[-1], m
        flags.append(fires)
    return np.array(values), np.array(flags)


@pytest.mark.parametrize("reference", ["transmitted", "raw_prev", "literal"])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_lazy_fires_per_the_rule(kappa, reference):
    """Skip iff 0 < |r| and |m - r| <= kappa |r|; deliver r; pay 1, else 32 d + 1."""
    makes = {
        "transmitted": lazy_transmitted,
        "raw_prev": lazy_raw,
        "literal": lazy_literal,
    }
    messages = walk(1)
    wires, states = deliver(makes[reference], messages, kappa)
    values, flags = nla(messages, kappa, reference)
    np.testing.assert_array_equal(wires.fired, flags)
    close(wires.value, values)
    np.testing.assert_array_equal(wires.bits, np.where(flags, 1, DENSE + 1))
    if reference == "literal":  # nothing that was sent is remembered
        assert states.last == ()
        close(states.raw, messages, 0)
    else:
        close(states.last, values)
    assert flags.any() == (kappa > 0) and not flags.all()


def lazy_transmitted(kappa):
    return fm.channels.lazy(fm.channels.identity(), kappa)


def lazy_raw(kappa):
    return fm.channels.lazy(fm.channels.identity(), kappa, "raw_prev")


def lazy_literal(kappa):
    return fm.channels.lazy(fm.channels.identity(), kappa, "literal")


def test_raw_prev_follows_a_slow_drift_without_sending():
    """Against the previous message a drift is never large; against the sent it is."""
    messages = np.outer(1.1 ** np.arange(20), np.ones(D)).astype(np.float32)
    sent, _ = deliver(lazy_transmitted, messages, 0.5)
    raw, _ = deliver(lazy_raw, messages, 0.5)
    assert raw.fired.tolist() == [False] + [True] * 19
    close(raw.value, np.ones((20, D)))  # delivered: the last transmitted, not the raw
    printed, _ = deliver(lazy_literal, messages, 0.5)
    assert printed.fired.tolist() == raw.fired.tolist()
    close(printed.value, messages[np.maximum(np.arange(20) - 1, 0)], 1e-6)  # the raw
    # 1.1^4 <= 1.5 < 1.1^5: every fifth message is new.
    assert sent.fired.tolist() == [t % 5 != 0 for t in range(20)]


def test_kappa_zero_sends_even_a_repetition():
    """kappa = 0 must be FedAMS, also when two messages are equal bit for bit."""
    messages = np.ones((5, D), np.float32)
    for make in (lazy_transmitted, lazy_raw, aa):
        wires, _ = deliver(make, messages, 0.0)
        assert not wires.fired.any()
        close(wires.value, messages, 0)
        assert wires.bits.tolist() == [DENSE + 1] * 5


def test_a_zero_reference_always_transmits():
    """A client that sent zeros, or nothing yet, has no message to repeat."""
    messages = np.zeros((6, D), np.float32)
    messages[4:] = 1
    for make in (lazy_transmitted, lazy_raw):
        wires, _ = deliver(make, messages, 10.0)
        assert wires.fired.tolist() == [False] * 5 + [True]
        close(wires.value, messages, 0)
    wires, _ = deliver(on_copy, messages, 10.0)
    assert wires.fired.tolist() == [False] * 5 + [True]


def test_the_inner_channel_advances_when_skipped():
    """The client compresses before it decides: the residual has moved all the same."""

    def make(kappa):
        return fm.channels.lazy(counting(fm.channels.error_feedback(sparse())), kappa)

    messages = walk(2)
    wires, states = deliver(make, messages, 1.5)
    assert 0 < wires.fired.sum() < ROUNDS
    assert states.inner.calls.tolist() == list(range(1, ROUNDS + 1))
    compressed, _ = deliver(feedback, messages)
    values, flags = nla(np.asarray(compressed.value), 1.5)
    np.testing.assert_array_equal(wires.fired, flags)
    close(wires.value, values)
    np.testing.assert_array_equal(wires.bits, np.where(flags, 1, SPARSE + 1))


def test_an_unknown_reference_is_refused():
    """A typing error must not silently choose a rule."""
    with pytest.raises(ValueError, match="raw_prev, literal: got 'raw'"):
        fm.channels.lazy(fm.channels.identity(), 0.5, "raw")


# ---- accelerated ---------------------------------------------------------------------


def aa(kappa):
    return fm.channels.accelerated(fm.channels.identity(), kappa)


def ef_aa(kappa):
    return fm.channels.error_feedback(aa(kappa))


def aa_ef(kappa):
    return fm.channels.accelerated(
        fm.channels.error_feedback(fm.channels.identity()), kappa
    )


ONES = np.ones((12, D), np.float32)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_accelerated_fires_per_the_rule(kappa):
    """Deliver m + (previous m) iff 0 < |r| and |m - r| <= kappa |r|; always sent."""
    messages = walk(1)
    wires, states = deliver(aa, messages, kappa)
    previous = np.concatenate([np.zeros((1, D)), messages[:-1]]).astype(np.float64)
    size = np.linalg.norm(previous, axis=1)
    near = np.linalg.norm(messages - previous, axis=1) <= kappa * size
    flags = near & (size > 0) & (kappa > 0)
    np.testing.assert_array_equal(wires.fired, flags)
    close(wires.value, messages + flags[:, None] * previous)
    assert wires.bits.tolist() == [DENSE + 1] * ROUNDS
    close(states.previous, messages, 0)
    assert flags.any() == (kappa > 0) and not flags.all()


def test_accelerated_stores_the_fresh_message():
    """Storing what was delivered would grow: 1, 2, 3, 4 instead of 1, 2, 2, 2."""
    wires, states = deliver(aa, ONES, 5.0)
    close(wires.value[:, 0], [1.0] + [2.0] * 11, 0)
    close(states.previous, ONES, 0)


@pytest.mark.parametrize(
    "kappa, cycle", [(1.0, [1, 2, 1, 0]), (3.0, [1, 2, 1, 0]), (0.5, [1, 2, 0])]
)
def test_the_residual_takes_the_acceleration_back(kappa, cycle):
    """ALGORITHMS 8.4.6: a constant 1 cycles and the total is the unaccelerated one."""
    wires, states = deliver(ef_aa, ONES, kappa)
    repeated = cycle * (12 // len(cycle))
    close(wires.value, np.outer(repeated, np.ones(D)), 0)
    close(wires.value.sum(axis=0), ONES.sum(axis=0), 0)
    close(states.error[-1], np.zeros(D), 0)


def test_compressed_reference_really_accelerates():
    """With the error feedback inside the rule nothing is taken back: 1, 2, 2, ..."""
    wires, _ = deliver(aa_ef, ONES, 0.5)
    close(wires.value[:, 0], [1.0] + [2.0] * 11, 0)


# ---- on the receiver's copy ----------------------------------------------------------


@pytest.mark.parametrize("kappa", (0.0, 0.05, 0.2, 3.0))
def test_lazy_on_copy_compares_with_the_copy(kappa):
    """Skip a change m iff |copy| > 0 and |m| <= kappa |copy|; the copy rests then."""
    messages = walk(1)
    wires, _ = deliver(on_copy, messages, kappa)
    copy = messages[0].astype(np.float64)
    flags, values = [False], [copy]
    for message in messages[1:]:
        m = top2(message - copy)
        fires = kappa > 0 and np.linalg.norm(m) <= kappa * np.linalg.norm(copy)
        copy = copy if fires else copy + m
        flags.append(fires)
        values.append(copy)
    assert wires.fired.tolist() == flags
    close(wires.value, values)
    price = np.where(flags, 1, SPARSE + 1)
    assert wires.bits.tolist() == [DENSE, *price[1:].tolist()]
    assert any(flags) == (kappa > 0)


def test_lazy_on_copy_accumulates_what_it_skips():
    """A drift of small steps must reach the receiver in the end."""
    messages = (10 + 0.5 * np.arange(40))[:, None] * np.ones(D)
    wires, _ = deliver(on_copy, messages.astype(np.float32), 0.1)
    gap = np.linalg.norm(wires.value - messages, axis=1)
    assert 0 < wires.fired.sum() < 39
    assert (gap < 0.5 * np.linalg.norm(messages, axis=1)).all()


# ---- LAG -----------------------------------------------------------------------------


def lag(skip):
    return lambda kappa: fm.channels.lag_worker(skip=skip)


SILENT, TALKING = lag(True), lag(False)


class Received(NamedTuple):
    threshold: jax.Array


def test_lag_worker_sends_changes_above_the_threshold():
    """Skip iff |m - last uploaded|^2 <= threshold: zeros, no bits, memory rests."""
    messages, threshold = walk(1), 1.0
    context = Received(jnp.asarray(threshold))
    wires, states = deliver(SILENT, messages, context=context)
    last, flags = np.zeros(D), []
    for t, message in enumerate(messages.astype(np.float64)):
        change = message - last
        fires = (change**2).sum() <= threshold
        flags.append(fires)
        close(wires.value[t], 0 * change if fires else change)
        last = last if fires else message
        close(states[t], last)
    assert wires.fired.tolist() == flags
    assert 0 < sum(flags) < ROUNDS
    np.testing.assert_array_equal(wires.bits, np.where(flags, 0, DENSE))
    # The sum of what the server got is the last upload.
    close(np.cumsum(wires.value, axis=0), states, 1e-4)


def test_lag_worker_without_skipping_always_sends():
    """Under the server rule a contacted worker answers, whatever the threshold."""
    messages, context = walk(1), Received(jnp.asarray(1e9))
    wires, states = deliver(TALKING, messages, context=context)
    assert not wires.fired.any() and set(wires.bits.tolist()) == {DENSE}
    close(np.cumsum(wires.value, axis=0), messages, 1e-4)
    close(states, messages, 0)


def test_lag_worker_needs_a_threshold():
    """Behind any other algorithm it would fail without a name, or never be silent."""
    message = np.ones(D, np.float32)
    wire = fm.channels.dense(message)
    for context in (None, {"threshold": 1.0}):
        with pytest.raises(ValueError, match="field threshold, .* for lag_worker: got"):
            fm.channels.lag_worker().send(message, wire, KEY, context)
    sent, _ = fm.channels.lag_worker(skip=False).send(0 * message, wire, KEY, None)
    close(sent.value, message, 0)
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg),
        problem.work(),
        problem.fixed_cohort([0]),
        uplink=fm.spec(fm.channels.lag_worker),
    )
    state = sim.init(problem.tanh_params(), problem.data(), KEY)
    with pytest.raises(ValueError, match="field threshold, .* lag_worker: got dict"):
        jax.eval_shape(sim.step, problem.data(), state, KEY)
