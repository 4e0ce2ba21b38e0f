"""Samplers that group clients on the host: bins, orders, warm-up and its price."""

import dataclasses
import signal
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedjax_mos as fm
from fedjax_mos.engine import host_updates as adapting
from fedjax_mos.engine.history import History
from fedjax_mos.engine.run import _blocks
from fedjax_mos.samplers.clustered import from_bins
from tests import problem
from tests.samplers.test_more_samplers import near, population, weights_of

KEYS = 20_000
GROUPS = np.array([0, 1, 2] * 4)  # twelve clients in three planted groups
SIZES = np.array([3, 10, 7, 12, 6, 5, 9, 2, 4, 8, 1, 11])


def planted(noise=0.1, seed=0):
    """Gradients around one direction per group, of very different lengths."""
    rng = np.random.default_rng(seed)
    centre = np.eye(3, 8)[GROUPS]
    length = 10.0 ** rng.uniform(-3, 3, (len(GROUPS), 1))
    return length * (centre + noise * rng.normal(size=centre.shape))


# ---- clusters ------------------------------------------------------------------------


@pytest.mark.parametrize("distance", ["cosine", "angle"])
def test_planted_groups_are_found(distance):
    """Whole groups, heaviest first, and so within; lengths play no part."""
    order = fm.cluster_order(planted(), SIZES, 3, distance=distance)
    mass = np.bincount(GROUPS, weights=SIZES)
    expected = sorted(range(12), key=lambda i: (-mass[GROUPS[i]], GROUPS[i], -SIZES[i]))
    np.testing.assert_array_equal(order, expected)
    by_size = np.argsort(-SIZES, kind="stable")
    assert not np.array_equal(order, by_size)
    np.testing.assert_array_equal(fm.cluster_order(planted(), SIZES, 1), by_size)


def test_equal_clusters_stay_whole():
    """Clusters of the same mass must not be mixed by sorting."""
    gradients = np.repeat(np.eye(2), 2, axis=0)[[0, 2, 1, 3]]
    order = fm.cluster_order(gradients, [1, 1, 1, 1], 2)
    assert {frozenset(order[:2]), frozenset(order[2:])} == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }


def test_client_gradients_are_full_gradients():
    """Row i must be the gradient over all of client i's examples, none else's."""
    data, params = problem.data(), problem.softmax_params()
    loss = fm.cross_entropy(problem.softmax_net)
    found = fm.client_gradients(loss, params, data, micro_batch=4)
    for i in range(len(problem.SIZES)):
        start = int(data.offset[i])
        rows = data.order[start : start + int(data.size[i])]
        every = fm.types.Batch(data.x[rows], data.y[rows], jnp.ones(len(rows), bool))
        expected = jax.grad(loss)(params, every, jax.random.key(0))
        for name, leaf in expected.items():
            np.testing.assert_allclose(found[name][i], leaf, rtol=1e-4, atol=1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_bins_hold_every_client(draw):
    """Rows sum to D and columns to M D_i: otherwise the sampler is biased."""
    n = draw.draw(st.integers(1, 12))
    cohort = draw.draw(st.integers(1, n))
    sizes = np.array(draw.draw(st.lists(st.integers(1, 60), min_size=n, max_size=n)))
    gradients = draw.draw(arrays(np.float32, (n, 3), elements=st.integers(-2, 2)))
    bins = fm.similar_bins(gradients, sizes, cohort)
    assert bins.shape == (cohort, n) and (bins >= 0).all()
    np.testing.assert_array_equal(bins.sum(axis=1), np.full(cohort, sizes.sum()))
    np.testing.assert_array_equal(bins.sum(axis=0), cohort * sizes)


def test_bins_are_the_planted_groups():
    """Three equal groups and three draws: a bin is a group, whatever the sizes."""
    sizes = np.array([1, 5, 4, 4, 3, 2, 2, 1, 3, 3, 1, 1])
    assert np.bincount(GROUPS, weights=sizes).tolist() == [10, 10, 10]
    bins = fm.similar_bins(planted(), sizes, 3)
    members = {frozenset(np.flatnonzero(row)) for row in bins}
    assert members == {frozenset(np.flatnonzero(g == GROUPS)) for g in range(3)}


def test_a_large_client_fills_bins_of_its_own():
    """D = 20, M = 4: a client of 13 owns two bins and 12 of 20 units of a third."""
    bins = fm.similar_bins(np.eye(4), [13, 3, 2, 2], 4)
    assert sorted(bins[:, 0].tolist()) == [0, 12, 20, 20]


def test_a_group_is_cut_where_it_exceeds_a_bin():
    """Six alike and two others, M = 2: no bin can hold the six, and mass is kept."""
    gradients = np.array([[1.0, 0]] * 6 + [[0, 1.0]] * 2)
    bins = fm.similar_bins(gradients, np.ones(8, int), 2)
    assert (bins.sum(axis=1) == 8).all()
    others = (bins[:, 6:] > 0).any(axis=1)
    assert others.sum() == 1  # the two unlike the rest stay together


def test_unknown_clients_are_near_to_all():
    """A client never heard of, or diverged, has no direction; trees need numbers."""
    for value in (0, np.nan, np.inf):
        gradients = np.eye(6, 3)
        gradients[::2] = value
        bins = fm.similar_bins(gradients, SIZES[:6], 3)
        np.testing.assert_array_equal(bins.sum(axis=0), 3 * SIZES[:6])


# ---- expectations --------------------------------------------------------------------


def drawn(sampler, state, data):
    sample = jax.jit(jax.vmap(lambda key: sampler.sample(state, key, (), data)[0]))
    return jax.device_get(sample(jax.random.split(jax.random.key(5), KEYS)))


@pytest.mark.parametrize("name", ["cacs", "clustered", "clustered at first"])
def test_clustered_samplers_are_unbiased(name):
    """E w_i = p_i (5 s.e. of 20,000 draws), and the weights of a cohort sum to 1."""
    data, cohort = population(SIZES), 3
    if name == "cacs":
        order = jnp.asarray(fm.cluster_order(planted(), SIZES, 3))
        sampler = fm.adaptive(cohort, order=order)
        state = sampler.init(data, jax.random.key(0))
    else:
        sampler = from_bins(cohort)
        state = sampler.init(data, jax.random.key(0))
        if name == "clustered":
            bins = fm.similar_bins(planted(), SIZES, cohort)
            state = jnp.asarray(bins.cumsum(axis=1), state.dtype)
    w = weights_of(drawn(sampler, state, data), len(SIZES))
    near(w.mean(axis=0), SIZES / SIZES.sum(), w.std(axis=0) / np.sqrt(KEYS))
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-6)


def test_draws_come_from_their_bins():
    """One client per bin: with a bin per group every cohort has one of each group."""
    sizes = np.array([1, 5, 4, 4, 3, 2, 2, 1, 3, 3, 1, 1])
    data, bins = population(sizes), fm.similar_bins(planted(), sizes, 3)
    cohorts = drawn(from_bins(3), jnp.asarray(bins.cumsum(axis=1), jnp.int32), data)
    assert cohorts.mask.all()
    np.testing.assert_array_equal(
        np.sort(GROUPS[cohorts.ids], axis=1)[::99], [[0, 1, 2]] * len(cohorts.ids[::99])
    )


# ---- the host between rounds ---------------------------------------------------------

WORK = fm.local_work(fm.cross_entropy(problem.softmax_net), fm.with_replacement(2, 3))
NUMBERS = {"lr": 0.3, "server_lr": 1.0}
KEY, N, D = jax.random.key(1), len(problem.SIZES), 12  # clients, model's numbers


def averaging(local, **numbers):
    return fm.tracked(fm.fedavg(local, **numbers))


@cache
def parts(name, backend=None):
    """Simulation and adaptation of a sampler on the toy problem."""
    simulate = partial(
        fm.simulation, fm.spec(averaging, **NUMBERS), WORK, backend=backend
    )
    if name == "clustered":
        made = fm.clustered(2, every=2)
        return simulate(made.sampler), made.adaptation
    made = fm.clustered_adaptive(2, WORK.loss, warm_up=3)
    warm = simulate(fm.everyone())
    return simulate(made.sampler), made.adaptation._replace(warm=warm)


def train(name, rounds, state=None, key=KEY, backend=None, **options):
    sim, adaptation = parts(name, backend)
    data = problem.data()
    if state is None:
        state = sim.init(problem.softmax_params(), data, KEY)
    return fm.run(
        sim, data, state, key, rounds, adaptation=adaptation, progress=False, **options
    )


def test_bits_include_the_warm_up():
    """By hand: 3 rounds of all, then all gradients at the model, then the cohort's."""
    state, history = train("cacs", 5)
    live = np.diff(history["bits_up"], prepend=0) / (32 * D)
    assert live[:3].tolist() == [N, N, N]
    assert (
        1 <= live[3] - N <= 2 and 1 <= live[4] <= 2
    )  # a client drawn twice sends once
    np.testing.assert_array_equal(history["bits_up"], history["bits_down"])
    assert int(state.round) == 5


def test_the_order_comes_from_the_gradients_after_the_warm_up():
    """An order from the first model, or none at all, would cluster noise."""
    sim, _ = parts("cacs")
    data = problem.data()
    before, _ = train("cacs", 3)
    gradients = fm.client_gradients(WORK.loss, before.server.params, data)
    after, _ = train("cacs", 4)
    expected = fm.cluster_order(gradients, data.size, 2)
    np.testing.assert_array_equal(after.sampler.order, expected)
    np.testing.assert_array_equal(
        after.sampler.ends, np.cumsum(np.array(problem.SIZES)[expected])
    )


@pytest.mark.parametrize("name", ["cacs", "clustered"])
def test_adapted_runs_can_be_continued(name):
    """4 + 2 rounds must equal 6, wherever the host's work falls."""
    whole, _ = train(name, 6)
    for first in (3, 4):
        half, _ = train(name, first)
        both, history = train(name, 6 - first, half)
        assert history["round"].tolist() == list(range(first + 1, 7))
        for a, b in zip(jax.tree.leaves(both), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_an_interrupt_before_the_first_evaluation(monkeypatch):
    """A history without the columns that a report needs."""
    add = History.add

    def interrupted(self, *args):
        signal.raise_signal(signal.SIGINT)
        add(self, *args)

    monkeypatch.setattr(History, "add", interrupted)

    def norm(params, stores):
        return {"norm": sum(jnp.vdot(p, p) for p in jax.tree.leaves(params))}

    _, history = train("clustered", 6, evaluate=norm, every=6)
    assert len(history) < 6 and np.isfinite(history["norm"].iloc[-1])


def test_host_work_must_be_wired():
    """A sampler whose host work silently never happens."""
    with pytest.raises(ValueError, match="its .adaptation to run"):
        fm.simulation(fm.spec(averaging, **NUMBERS), WORK, fm.clustered(3))


@pytest.mark.parametrize(
    ("name", "lanes", "backend"),  # the devices are two
    [("cacs", 2, None), ("clustered", 2, None), ("clustered", 3, fm.spread())],
)
def test_adapted_lanes_equal_single_runs(name, lanes, backend):
    """Each seed has its own model, so its own clusters."""
    sim, _ = parts(name)
    keys = jax.random.split(jax.random.key(9), lanes)
    init = partial(sim.init, problem.softmax_params(), problem.data())
    last, history = train(name, 5, jax.vmap(init)(keys), keys, backend)
    for lane, key in enumerate(keys):
        state, single = train(name, 5, init(key), key)
        rows = history[history["lane"] == lane].drop(columns=["lane", "seconds"])
        for column in rows:
            np.testing.assert_allclose(rows[column], single[column], rtol=1e-4)
        for a, b in zip(
            jax.tree.leaves(last.sampler), jax.tree.leaves(state.sampler), strict=True
        ):
            np.testing.assert_array_equal(a[lane], b)


def test_bins_are_formed_from_the_last_messages():
    """Revised before rounds 0, 2 and 4 only, from what clients sent until then."""
    start, _ = train("clustered", 4)
    after, _ = train("clustered", 5)
    data = problem.data()
    bins = fm.similar_bins(start.clients.mine.last, data.size, 2)
    np.testing.assert_array_equal(after.sampler, bins.cumsum(axis=1))
    later, _ = train("clustered", 6)
    np.testing.assert_array_equal(later.sampler, after.sampler)


def test_tracked_keeps_the_last_message():
    """y_i - x of those who took part, zero for others; training as ever."""
    data, params = problem.data(), problem.softmax_params()
    cohort = problem.fixed_cohort([4, 1])
    for make in (fm.fedavg, fm.scaffold):
        options = NUMBERS | ({"option": 2} if make is fm.scaffold else {})
        follow = fm.spec(
            lambda w, make=make, **hp: fm.tracked(make(w, **hp)), **options
        )
        sims = [
            fm.simulation(a, WORK, cohort) for a in (follow, fm.spec(make, **options))
        ]
        (state, info), (plain, other) = (
            jax.jit(sim.step)(data, sim.init(params, data, KEY), KEY) for sim in sims
        )
        last = state.clients.mine.last["w"]
        assert (abs(last).sum(axis=(1, 2)) > 0).tolist() == [
            i in (1, 4) for i in range(N)
        ]
        np.testing.assert_array_equal(info.bits_up, other.bits_up)
        for a, b in zip(
            jax.tree.leaves(state.server), jax.tree.leaves(plain.server), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        mean = jnp.tensordot(info.cohort.weights, last[info.cohort.ids], 1)
        np.testing.assert_allclose(
            state.server.params["w"] - params["w"], mean, rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("every", [1, 3, 4])
@pytest.mark.parametrize("first", [0, 1, 5])
def test_visits_end_where_the_host_has_work(first, every):
    """A revision inside a block would be skipped; an evaluation too many costs."""
    adaptation = fm.types.Adaptation(None, every=2, warm_up=3)
    blocks = _blocks(11, every, adapting.stops(adaptation, first, 11))
    assert sum(length for length, _ in blocks) == 11
    ends = np.cumsum([length for length, _ in blocks])
    due = [t for t in range(1, 11) if adapting.due(adaptation, first + t)]
    assert set(due) <= set(ends) and (first >= 3 or 3 - first in ends)
    evaluated, done = [], 0
    for length, interval in blocks:
        if interval:
            evaluated += range(done + interval, done + length + 1, interval)
        done += length
    assert evaluated == sorted({*range(every, 12, every), 11})


# ---- by name -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("cacs", {"warm_up": 0}, "warm_up must be at least 1: got 0"),
        ("cacs", {"clusters": -1}, "clusters must not be negative: got -1"),
        ("cacs", {"clusters": 999}, r"clusters must lie in \[1, 100\].*got 999"),
        ("cacs", {"distance": "l2"}, "distance must be one of cosine, angle: got 'l2'"),
        ("cacs", {"warm_up": 5}, "rounds must be more than warm_up, 5: got 5"),
        ("clustered", {"sampler.every": 0}, "every must be at least 1: got 0"),
    ],
)
def test_wrong_options_are_refused_before_compiling(sampler, options, message):
    """A run of hours must not fail after its warm-up."""
    experiment = fm.Experiment(sampler=sampler, rounds=5, options=options)
    with pytest.raises(ValueError, match=message):
        experiment.build().start(jax.random.key(0))
    with pytest.raises(ValueError, match=f"sampler {sampler} takes no pool: got 50"):
        fm.Experiment(sampler=sampler, pool=50).build()


def test_experiment_with_cacs():
    """By name: the warm-up is the first rounds, everybody's, and evaluation goes on."""
    experiment = fm.Experiment(
        algorithm="fedavg",
        sampler="cacs",
        rounds=3,
        eval_every=2,
        options={"warm_up": 1},
    )
    result = experiment.run(progress=False)
    history = result.history
    numbers = sum(leaf.size for leaf in jax.tree.leaves(result.params))
    sent = np.diff(history["bits_up"], prepend=0) / (32 * numbers)
    assert sent[0] == 100 and 100 < sent[1] <= 110 and sent[2] <= 10
    assert history["test_accuracy"].notna().tolist() == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["chunked:2", "sharded:1", "debug"])
@pytest.mark.parametrize("sampler", ["cacs", "clustered"])
def test_adapted_samplers_on_every_layout(sampler, backend):
    """The host's sampler state must fit a layout that places its own arrays."""
    options = {"warm_up": 1} if sampler == "cacs" else {}
    experiment = fm.Experiment(
        algorithm="fedavg",
        sampler=sampler,
        clients=8,
        cohort=3,
        rounds=3,
        backend="vmapped",
        options=options,
    )
    expected = experiment.run(progress=False)
    got = dataclasses.replace(experiment, backend=backend).run(progress=False)
    columns = ["bits_up", "bits_down", "test_loss"]
    np.testing.assert_allclose(
        got.history[columns], expected.history[columns], rtol=1e-4
    )
