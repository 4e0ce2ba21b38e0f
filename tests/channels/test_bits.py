"""Bits per round, up and down, against a count by hand.

The toy model has 12 numbers: a dense message costs 32 * 12 = 384 bits; a quarter of it,
three numbers with an index each, 3 * 64 = 192; a flag one bit.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.types import Channel, Cohort, Sampler, Wire
from tests import problem

pytestmark = pytest.mark.thorough

DENSE, SPARSE, FLAG = 32 * 12, 3 * 64, 1
KEY = jax.random.key(5)
LAG = ("lag", "lag_ps")
# Who takes part; -1 is a dead slot. Client 4 is never asked.
COHORTS = np.array(
    [
        [0, 1, 2],
        [1, 2, 3],
        [0, 3, -1],
        [5, 1, 0],
        [-1, 2, 5],
        [3, 0, 1],
        [2, 1, 0],
        [0, 5, 3],
    ]
)
LIVE = [3, 3, 2, 3, 2, 3, 3, 3]
# Slots whose client is asked for the first time.
NEW = np.zeros(COHORTS.shape, bool)
NEW[0], NEW[1, 2], NEW[3, 0] = True, True, True
ROUNDS = len(COHORTS)


def listed():
    """A sampler that works through COHORTS."""
    mask = jnp.asarray(COHORTS >= 0)
    ids, weights = jnp.maximum(COHORTS, 0), mask / mask.sum(axis=1, keepdims=True)

    def sample(state, view, key):
        t = view.round
        return Cohort(ids[t], weights[t], mask[t]), state

    return Sampler(lambda view, key: (), sample)


# kappa such that a rule fires sometimes.
OPTIONS = {
    "nla": {"kappa": 0.1},
    "aa": {"kappa": 0.1},
    "feedback": {"fraction": 0.25},
    "nla_compressed": {"fraction": 0.25, "kappa": 1.35},
    "aa_compressed": {"fraction": 0.25, "kappa": 1.35},
    "nla_down": {"fraction": 0.25, "kappa": 0.4},
    "aa_down": {"fraction": 0.25},
    "lag": {"lr": 0.15},
    "lag_ps": {"lr": 0.1},
    "lag_contact": {"smoothness": 0.5},
}


def component(table, name):
    return table[name].spec().replace(**OPTIONS.get(name, {}))


def recipe(name, own_smoothness=False):
    """The catalog's recipe `name` as a simulation of the toy problem."""
    entry = catalog.ALGORITHMS[name]
    sampler = listed()
    if name == "lag":
        sampler = problem.fixed_cohort(range(6))
    if name == "lag_ps":
        sampler = component(catalog.SAMPLERS, entry.sampler)
        if own_smoothness:
            smoothness = jnp.array([0.2, 0.5, 1.0, 1.5, 2.0, 3.0])
            sampler = sampler.replace(smoothness=smoothness)
    return fm.simulation(
        component(catalog.ALGORITHMS, name),
        fm.local_work(fm.losses.mean_loss(problem.softmax_net), problem.cyclic(1, 3)),
        sampler,
        cohort=6,
        uplink=component(catalog.CHANNELS, entry.uplink),
        downlink=component(catalog.CHANNELS, entry.downlink),
    )


@cache
def infos(name, **options):
    """What the rounds of a recipe report, as NumPy."""
    return rolled(recipe(name, **options), problem.data(), problem.softmax_params())


def rolled(sim, data, params, rounds=ROUNDS):
    state = sim.init(params, data, KEY)
    _, trace = jax.jit(lambda s: fm.rollout(sim, data, s, KEY, rounds))(state)
    return jax.device_get(trace.info)


def fired(info, name):
    """In how many live slots a rule applied, per round."""
    live = info.cohort.mask.sum(axis=1)
    count = info.metrics[name] * live
    np.testing.assert_allclose(count, count.round(), atol=1e-5)
    return count.round().astype(int)


class Price(NamedTuple):
    """What one message costs."""

    first: int  # the first that a client sends or receives
    sent: int
    skipped: int | None = None  # None: no message is ever skipped


# (up, down) of every recipe.
PRICES = {
    "fedcams": (Price(SPARSE, SPARSE), Price(DENSE, DENSE)),
    "fednlaa": (Price(DENSE + FLAG, DENSE + FLAG, FLAG), Price(DENSE, DENSE)),
    "fedaa": (Price(DENSE + FLAG, DENSE + FLAG), Price(DENSE, DENSE)),
    "fednlaca": (Price(SPARSE + FLAG, SPARSE + FLAG, FLAG), Price(DENSE, DENSE)),
    "fedaca": (Price(SPARSE + FLAG, SPARSE + FLAG), Price(DENSE, DENSE)),
    "fedbnlaca": (
        Price(SPARSE + FLAG, SPARSE + FLAG, FLAG),
        Price(DENSE, SPARSE + FLAG, FLAG),  # first contact is dense, without a flag
    ),
    "fedbaca": (
        Price(SPARSE + FLAG, SPARSE + FLAG),
        Price(DENSE, SPARSE),  # no rule on this downlink
    ),
}
RULES = {
    "fednlaa": {"fired_up"},
    "fedaa": {"fired_up"},
    "fednlaca": {"fired_up"},
    "fedaca": {"fired_up"},
    "fedbnlaca": {"fired_up", "fired_down"},
    "fedbaca": {"fired_up"},
    "lag": {"fired_up"},
    "lag_ps": {"fired_up"},
}


def test_every_recipe_is_counted():
    """A recipe added to the catalog must be counted here as well."""
    named = {
        name
        for name, entry in catalog.ALGORITHMS.items()
        if (entry.uplink, entry.downlink) != ("identity", "identity")
    }
    assert named == {*PRICES, *LAG}


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("name", PRICES)
def test_bits_of_a_recipe_are_a_hand_count(name, way):
    """Accuracy against bits is the papers' claim: no bit may be missing or extra."""
    info, price = infos(name), PRICES[name][way == "down"]
    bits = {"up": info.bits_up, "down": info.bits_down}[way]
    live = COHORTS >= 0
    np.testing.assert_array_equal(info.cohort.mask, live)
    first, later = (NEW & live).sum(axis=1), (~NEW & live).sum(axis=1)
    skipped = np.zeros(ROUNDS, int)
    if price.skipped is not None:
        skipped = fired(info, f"fired_{way}")
        assert 0 < skipped.sum() < later.sum()  # both cases are there
    expected = first * price.first + (later - skipped) * price.sent
    expected = expected + skipped * (price.skipped or 0)
    np.testing.assert_array_equal(bits.sum(axis=1, dtype=np.int64), expected)
    # Slot by slot: the dead pay nothing, a first message is never skipped.
    assert (bits[~live] == 0).all()
    assert (bits[NEW] == price.first).all()
    assert set(np.unique(bits[live & ~NEW])) <= {price.sent, price.skipped}
    np.testing.assert_array_equal((bits == 1).sum(axis=1), skipped)


def test_round_zero_by_hand():
    """The same count with the numbers written out: three clients, first contact."""
    up = {name: int(infos(name).bits_up[0].sum()) for name in PRICES}
    down = {name: int(infos(name).bits_down[0].sum()) for name in PRICES}
    assert up == {
        "fedcams": 3 * 192,
        "fednlaa": 3 * 385,
        "fedaa": 3 * 385,
        "fednlaca": 3 * 193,
        "fedaca": 3 * 193,
        "fedbnlaca": 3 * 193,
        "fedbaca": 3 * 193,
    }
    assert set(down.values()) == {3 * 384}
    assert (COHORTS >= 0).sum(axis=1).tolist() == LIVE
    assert np.argwhere(NEW).tolist() == [[0, 0], [0, 1], [0, 2], [1, 2], [3, 0]]


@pytest.mark.parametrize("name", [*PRICES, *LAG])
def test_rates_of_the_rules_are_logged(name):
    """A rule that never fires changes nothing; one has to see that."""
    metrics = infos(name).metrics
    assert {key for key in metrics if key.startswith("fired")} == RULES.get(name, set())
    for key in RULES.get(name, set()):
        assert ((metrics[key] >= 0) & (metrics[key] <= 1)).all()


def test_acceleration_costs_the_same_fired_or_not():
    """AA saves nothing per round: the rates vary, the bits do not."""
    for name in ("fedaa", "fedaca", "fedbaca"):
        info = infos(name)
        assert 0 < fired(info, "fired_up").sum() < sum(LIVE)
        assert len(np.unique(info.bits_up[COHORTS >= 0])) == 1


def test_bits_of_lag_are_a_hand_count():
    """LAG-WK: all six hear model and threshold, 32 * 13; silence is free."""
    info = infos("lag")
    skipped = fired(info, "fired_up")
    assert skipped[0] == 0 and 0 < skipped.sum() < 6 * (ROUNDS - 1)
    np.testing.assert_array_equal(info.bits_down, np.full((ROUNDS, 6), 32 * 13))
    np.testing.assert_array_equal(info.bits_up.sum(axis=1), (6 - skipped) * DENSE)
    assert set(np.unique(info.bits_up)) == {0, DENSE}


@pytest.mark.parametrize("own_smoothness", [False, True])
def test_bits_of_lag_ps_are_a_hand_count(own_smoothness):
    """LAG-PS: who is not contacted costs nothing, either way."""
    info = infos("lag_ps", own_smoothness=own_smoothness)
    contacted = info.cohort.mask
    # With one L for all, all workers hold the same model: they are asked together.
    assert (contacted.all(axis=1) == contacted.any(axis=1)).all() != own_smoothness
    assert contacted[0].all() and not fired(info, "fired_up").any()
    assert 0 < contacted[1:].sum() < 6 * (ROUNDS - 1)
    np.testing.assert_array_equal(info.bits_down, contacted * 32 * 13)
    np.testing.assert_array_equal(info.bits_up, contacted * DENSE)


# ---- the engine ----------------------------------------------------------------------


class Server(NamedTuple):
    params: Any


def echo(local):
    """An algorithm that sends the model back: all cost, no work."""
    exchange = fm.Exchange(
        lambda server: server.params,
        lambda down, mine, view, key: (down, mine, {}),
        lambda server, agg: server,
    )
    return fm.Algorithm(lambda params, key: (Server(params), ()), (exchange,))


def echoing(sampler, **channels):
    return fm.simulation(fm.spec(echo), problem.work(), sampler, **channels)


def test_a_broadcast_is_paid_once_per_recipient():
    """One encoding, but every live client hears it; dead slots do not."""
    sparse = fm.channels.plain(fm.channels.top_k(0.25))
    live = COHORTS >= 0
    data, params = problem.data(), problem.softmax_params()
    info = rolled(echoing(listed(), broadcast=sparse), data, params)
    np.testing.assert_array_equal(info.bits_down, live * SPARSE)
    np.testing.assert_array_equal(info.bits_up, live * DENSE)
    assert info.bits_down.sum(axis=1).tolist() == [n * SPARSE for n in LIVE]
    # One copy for all: dense in round 0 alone, for newcomers too.
    info = rolled(
        echoing(listed(), broadcast=fm.channels.difference(sparse)), data, params
    )
    price = np.where(np.arange(ROUNDS) == 0, DENSE, SPARSE)
    np.testing.assert_array_equal(info.bits_down, live * price[:, None])
    # Before a per-client channel the broadcast's price is that of first contact.
    sim = echoing(listed(), broadcast=sparse, downlink=fm.channels.difference(sparse))
    info = rolled(sim, data, params)
    np.testing.assert_array_equal(info.bits_down, live * SPARSE)


def test_a_client_drawn_twice_transmits_once():
    """Merged draws are one message with a larger weight."""
    sim = echoing(fm.samplers.multinomial(problem.tools(5)))
    info = rolled(sim, problem.data(), problem.softmax_params())
    live = info.cohort.mask
    assert (live.sum(axis=1) < 5).any()
    for bits in (info.bits_up, info.bits_down):
        np.testing.assert_array_equal(bits, live * DENSE)


def claiming(bits):
    """A channel that claims `bits` for every message."""

    def send(state, wire, key, context):
        return Wire(wire.value, jnp.uint32(bits)), state

    return Channel(lambda value: (), send)


def test_cumulative_bits_are_exact_integers():
    """At 10^15 a float32 is wrong by 10^8 and an int32 wrapped around long ago."""
    clients, rounds, up, down = 1000, 300, 2**32 - 1, 2**32 - 17
    x, y = np.zeros((clients, 1), np.float32), np.zeros(clients, np.int32)
    parts = fm.partitions.Partition(np.arange(clients), np.ones(clients, int))
    sim = echoing(
        problem.fixed_cohort(range(clients)),
        uplink=claiming(up),
        downlink=claiming(down),
    )
    data = fm.federate(x, y, parts)
    state = sim.init({"w": jnp.zeros(1)}, data, KEY)
    _, history = fm.run(sim, data, state, KEY, rounds, progress=False)
    for name, bits in (("bits_up", up), ("bits_down", down)):
        assert history[name].dtype == np.int64
        expected = [bits * clients * t for t in range(1, rounds + 1)]
        assert history[name].tolist() == expected
        assert history[name].iloc[-1] > 10**15
