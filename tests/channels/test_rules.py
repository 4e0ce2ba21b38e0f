"""Channels with memory, against NumPy and the numbers of ALGORITHMS 8.4."""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.channels import recipes
from fedjax_mos.channels import extrapolated, lag_worker, lazy_on_copy
from fedjax_mos.types import Channel, Wire

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
            wire, state = channel.send(state, fm.dense(message), key, context)
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
    return fm.plain(fm.top_k(FRACTION))


def feedback(kappa):
    return fm.error_feedback(sparse())


def change(kappa):
    return fm.difference(sparse())


# ---- error feedback ------------------------------------------------------------------

INNER = {
    "identity": lambda kappa: fm.identity(),
    "top_k": lambda kappa: sparse(),
    "random_k": lambda kappa: fm.plain(fm.random_k(FRACTION)),
    "sign": lambda kappa: fm.plain(fm.scaled_sign()),
    "quantise": lambda kappa: fm.plain(fm.quantise(4)),
    "lazy": lambda kappa: fm.lazy(fm.identity(), kappa),
    "lazy top_k": lambda kappa: fm.lazy(sparse(), kappa),
    "lazy raw_prev": lambda kappa: fm.lazy(sparse(), kappa, "raw_prev"),
    "accelerated": lambda kappa: fm.accelerated(fm.identity(), kappa),
    "accelerated sign": lambda kappa: fm.accelerated(fm.plain(fm.scaled_sign()), kappa),
    "both": lambda kappa: fm.lazy(fm.accelerated(sparse(), kappa), kappa),
}


@pytest.mark.parametrize("name", INNER)
def test_error_feedback_telescopes(name):
    """sum delivered + e_T = sum sent, or what is held back is lost (1e-4)."""
    messages = walk()

    @jax.jit
    @jax.vmap
    def sums(kappa):
        channel = fm.error_feedback(INNER[name](kappa))

        def step(state, xs):
            wire, state = channel.send(state, fm.dense(xs[0]), xs[1], None)
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
        return fm.difference(lazy_on_copy(sparse(), kappa))

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
        return fm.difference(counting(fm.error_feedback(sparse())))

    _, states = deliver(make, walk())
    assert states.inner.calls.tolist() == list(range(ROUNDS))
    close(states.inner.inner.error[0], np.zeros(D), 0)


def test_a_rule_cannot_apply_at_first_contact():
    """The dense model was sent, whatever the rule thought: rates must not count it."""

    def make(kappa):
        def send(state, wire, key, context):
            return Wire(wire.value, jnp.uint32(1), jnp.ones((), bool)), state

        return fm.difference(Channel(lambda value: (), send))

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
    "top_k": lambda: fm.top_k(FRACTION),
    "sign": lambda: fm.scaled_sign(),
    # At most 16 bits: |C(v) - v| is below |v| / 100, so the error shrinks every time.
    "quantise": lambda: fm.quantise(12),
}


@pytest.mark.parametrize("name", CODECS)
def test_difference_converges_to_a_constant(name):
    """A receiver that never reaches a standing model trains from a wrong one."""
    target = walk()[20]
    # First contact with zeros: from then on everything has to come compressed.
    messages = np.concatenate([np.zeros((1, D)), np.stack([target] * 60)])
    wires, _ = deliver(
        lambda kappa: fm.difference(fm.plain(CODECS[name]())),
        messages.astype(np.float32),
    )
    error = np.linalg.norm(wires.value - target, axis=1) / np.linalg.norm(target)
    assert error[0] == 1 and error[1] > 1e-4
    assert error[-1] < 1e-5


def relative_errors(make):
    """ALGORITHMS 8.4.9: a constant Gaussian model, d = 1000, top-k 1/8, 40 rounds."""
    theta = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    messages = np.concatenate([np.zeros((1, 1000), np.float32), np.stack([theta] * 40)])
    wires, _ = deliver(make, messages, kappa=0.0)
    gaps = np.linalg.norm(wires.value - theta, axis=1) / np.linalg.norm(theta)
    return gaps[[1, 5, 10, 40]]


DOWN = {"difference": (0.71, 0.18, 0, 0), "literal": (0.71, 1.43, 1.96, 2.0)}


@pytest.mark.parametrize("recipe", [recipes.nla_down, recipes.aa_down])
@pytest.mark.parametrize("downlink", DOWN)
def test_relative_errors_of_the_downlinks(downlink, recipe):
    """Error feedback on a model that is replaced ends worse than nothing (.04)."""

    def make(kappa):
        return recipe(fraction=1 / 8, kappa=kappa, downlink=downlink)

    got = relative_errors(make)
    np.testing.assert_allclose(got, DOWN[downlink], atol=0.04)
    if downlink == "difference":
        assert got[2] == got[3] == 0


# ---- lazy ----------------------------------------------------------------------------


class Count(NamedTuple):
    calls: jax.Array
    inner: object


def counting(inner):
    """`inner`, counting how often it was asked."""

    def send(state, wire, key, context):
        out, after = inner.send(state.inner, wire, key, context)
        return out, Count(state.calls + 1, after)

    return Channel(lambda value: Count(jnp.zeros((), int), inner.init(value)), send)


def nla(messages, kappa, reference="transmitted"):
    """The rule in NumPy: delivered values and whether it fired."""
    last = raw = np.zeros(D)
    values, flags = [], []
    for m in messages.astype(np.float64):
        r = last if reference == "transmitted" else raw
        size = np.linalg.norm(r)
        fires = kappa > 0 and size > 0 and np.linalg.norm(m - r) <= kappa * size
        last, raw = (last if fires else m), m
        values.append(last)
        flags.append(fires)
    return np.array(values), np.array(flags)


@pytest.mark.parametrize("reference", ["transmitted", "raw_prev"])
@pytest.mark.parametrize("kappa", KAPPAS)
def test_lazy_fires_per_the_rule(kappa, reference):
    """Skip iff 0 < |r| and |m - r| <= kappa |r|; deliver r; pay 1, else 32 d + 1."""
    makes = {"transmitted": lazy_transmitted, "raw_prev": lazy_raw}
    messages = walk(1)
    wires, states = deliver(makes[reference], messages, kappa)
    values, flags = nla(messages, kappa, reference)
    np.testing.assert_array_equal(wires.fired, flags)
    close(wires.value, values)
    np.testing.assert_array_equal(wires.bits, np.where(flags, 1, DENSE + 1))
    close(states.last, values)
    assert flags.any() == (kappa > 0) and not flags.all()


def lazy_transmitted(kappa):
    return fm.lazy(fm.identity(), kappa)


def lazy_raw(kappa):
    return fm.lazy(fm.identity(), kappa, "raw_prev")


def test_raw_prev_follows_a_slow_drift_without_sending():
    """Against the previous message a drift is never large; against the sent it is."""
    messages = np.outer(1.1 ** np.arange(20), np.ones(D)).astype(np.float32)
    sent, _ = deliver(lazy_transmitted, messages, 0.5)
    raw, _ = deliver(lazy_raw, messages, 0.5)
    assert raw.fired.tolist() == [False] + [True] * 19
    close(raw.value, np.ones((20, D)))  # delivered: the last transmitted, not the raw
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
        return fm.lazy(counting(fm.error_feedback(sparse())), kappa)

    messages = walk(2)
    wires, states = deliver(make, messages, 1.5)
    assert 0 < wires.fired.sum() < ROUNDS
    assert states.inner.calls.tolist() == list(range(1, ROUNDS + 1))
    compressed, _ = deliver(feedback, messages)
    values, flags = nla(np.asarray(compressed.value), 1.5)
    np.testing.assert_array_equal(wires.fired, flags)
    close(wires.value, values)
    np.testing.assert_array_equal(wires.bits, np.where(flags, 1, SPARSE + 1))


def test_what_lazy_holds_back_goes_to_the_residual():
    """Line 13 of Algorithm 3: e = a - o, with o the repeated message."""

    def make(kappa):
        return recipes.nla_compressed(fraction=FRACTION, kappa=kappa)

    messages, last, e = walk(4), np.zeros(D), np.zeros(D)
    wires, states = deliver(make, messages, 1.5)
    for t, message in enumerate(messages.astype(np.float64)):
        a = message + e
        c = top2(a)
        size = np.linalg.norm(last)
        fires = size > 0 and np.linalg.norm(c - last) <= 1.5 * size
        last = last if fires else c
        e = a - last
        assert bool(wires.fired[t]) == fires
        close(wires.value[t], last, 1e-4)
        close(states.error[t], e, 1e-4)
    assert 0 < wires.fired.sum() < ROUNDS


def test_an_unknown_reference_is_refused():
    """A typing error must not silently choose a rule."""
    with pytest.raises(ValueError, match="'transmitted' or 'raw_prev': got 'raw'"):
        fm.lazy(fm.identity(), 0.5, "raw")
    with pytest.raises(ValueError, match="'output' or 'compressed': got 'in'"):
        recipes.aa_compressed(fraction=0.5, kappa=1.0, ef_reference="in")
    with pytest.raises(ValueError, match="'difference' or 'literal': got 'dense'"):
        recipes.aa_down(fraction=0.5, kappa=1.0, downlink="dense")


# ---- accelerated ---------------------------------------------------------------------


def aa(kappa):
    return fm.accelerated(fm.identity(), kappa)


def ef_aa(kappa):
    return fm.error_feedback(aa(kappa))


def aa_ef(kappa):
    return fm.accelerated(fm.error_feedback(fm.identity()), kappa)


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


REFERENCES = {
    "output": lambda inner, rule: fm.error_feedback(rule(inner)),
    "compressed": lambda inner, rule: rule(fm.error_feedback(inner)),
}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("rule", ["nla", "aa"])
def test_ef_reference_is_the_order_of_composition(rule, reference):
    """The two readings of Algorithm 3 must not be swapped in the recipes."""
    recipe = {"nla": recipes.nla_compressed, "aa": recipes.aa_compressed}[rule]
    combine = {"nla": fm.lazy, "aa": fm.accelerated}[rule]

    def make(kappa):
        return recipe(fraction=FRACTION, kappa=kappa, ef_reference=reference)

    def same(kappa):
        return REFERENCES[reference](sparse(), lambda inner: combine(inner, kappa))

    messages = walk(6)
    got, expected = (deliver(m, messages, 1.5)[0] for m in (make, same))
    close(got.value, expected.value, 0)
    assert got.bits.tolist() == expected.bits.tolist()
    assert got.fired.tolist() == expected.fired.tolist()
    assert 0 < got.fired.sum() < ROUNDS


@pytest.mark.parametrize("codec", ["top_k", "sign"])
def test_with_feedback_rules_fire_only_above_one(codec):
    """ALGORITHMS 8.4.2: for a constant message the ratio stays between 1 and 2.1."""
    messages = np.stack([np.random.default_rng(0).normal(size=1000)] * 40)
    fraction = 1 / 8

    def make(kappa):
        return recipes.nla_compressed(fraction=fraction, kappa=kappa, codec=codec)

    messages = messages.astype(np.float32)
    below, _ = deliver(make, messages, 1.0)
    above, _ = deliver(make, messages, 2.1)
    assert not below.fired.any()
    assert above.fired[1:].any()


# ---- the others ----------------------------------------------------------------------


def on_copy(kappa):
    return fm.difference(lazy_on_copy(sparse(), kappa))


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


def test_extrapolated_delivers_ahead_and_keeps_the_copy():
    """The client starts ahead, but both ends must keep the plain copy."""

    def make(kappa):
        return extrapolated(fm.difference(sparse()))

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
        return recipes.aa_down(fraction=FRACTION, kappa=kappa, extrapolate=True)

    close(deliver(recipe, messages)[0].value, wires.value, 0)


def lag(skip):
    return lambda kappa: lag_worker(skip=skip)


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


def test_identity_keeps_the_price_of_upstream():
    """A cost set by the broadcast must survive a per-client identity."""
    wire = Wire(jnp.ones(D), jnp.uint32(7), jnp.array(True))
    out, _ = fm.identity().send((), wire, KEY, None)
    assert out is wire


def test_a_message_beyond_32_bits_is_refused():
    """2^32 bits would wrap around to a free message."""
    with pytest.raises(ValueError, match="at most 134217727 numbers: this one has"):
        fm.dense(np.broadcast_to(np.float32(0), 2**27))
