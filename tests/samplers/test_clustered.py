"""Samplers that group clients on the host: expectations, warm-up and its price."""

import dataclasses
import signal
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine import host_updates
from fedjax_mos.engine.history import History
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.engine.visits import visits
from fedjax_mos.samplers.clustered import from_bins
from tests import problem
from tests.samplers.population import KEYS, near, population, see, tools, weights_of
from tests.samplers.test_clusters import GROUPS, SIZES, planted

pytestmark = pytest.mark.thorough

# ---- expectations --------------------------------------------------------------------


def drawn(sampler, state, data):
    sample = jax.jit(jax.vmap(lambda key: sampler.sample(state, see(data), key)[0]))
    return jax.device_get(sample(jax.random.split(jax.random.key(5), KEYS)))


@pytest.mark.parametrize("name", ["cacs", "clustered", "clustered at first"])
def test_clustered_samplers_are_unbiased(name):
    """E w_i = p_i (5 s.e. of 20,000 draws), and the weights of a cohort sum to 1."""
    data, cohort = population(SIZES), 3
    if name == "cacs":
        order = jnp.asarray(fm.samplers.cluster_order(planted(), SIZES, 3))
        sampler = fm.samplers.adaptive(tools(cohort), order=order)
        state = sampler.init(see(data), jax.random.key(0))
    else:
        sampler = from_bins(cohort)
        state = sampler.init(see(data), jax.random.key(0))
        if name == "clustered":
            bins = fm.samplers.similar_bins(planted(), SIZES, cohort)
            state = jnp.asarray(bins.cumsum(axis=1), state.dtype)
    w = weights_of(drawn(sampler, state, data), len(SIZES))
    near(w.mean(axis=0), SIZES / SIZES.sum(), w.std(axis=0) / np.sqrt(KEYS))
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-6)


def test_draws_come_from_their_bins():
    """One client per bin: with a bin per group every cohort has one of each group."""
    sizes = np.array([1, 5, 4, 4, 3, 2, 2, 1, 3, 3, 1, 1])
    data, bins = population(sizes), fm.samplers.similar_bins(planted(), sizes, 3)
    cohorts = drawn(from_bins(3), jnp.asarray(bins.cumsum(axis=1), jnp.int32), data)
    assert cohorts.mask.all()
    np.testing.assert_array_equal(
        np.sort(GROUPS[cohorts.ids], axis=1)[::99], [[0, 1, 2]] * len(cohorts.ids[::99])
    )


# ---- the host between rounds ---------------------------------------------------------

WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.3, server_lr=1.0)
KEY, N, D = jax.random.key(1), len(problem.SIZES), 12  # clients, model's numbers
SAMPLERS = {
    "clustered": fm.spec(fm.samplers.clustered, every=2),
    "cacs": fm.spec(fm.samplers.clustered_adaptive, warm_up=3),
}


@cache
def simulated(name, backend=None):
    """A simulation of the toy problem, whose sampler brings its host along."""
    return fm.simulation(AVERAGE, WORK, SAMPLERS[name], cohort=2, backend=backend)


def train(name, rounds, state=None, key=KEY, backend=None, **options):
    sim, data = simulated(name, backend), problem.data()
    if state is None:
        state = sim.init(problem.softmax_params(), data, KEY)
    return fm.run(sim, data, state, key, rounds, progress=False, **options)


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
    data = problem.data()
    before, _ = train("cacs", 3)
    gradients = fm.samplers.client_gradients(WORK.loss, before.server.params, data)
    after, _ = train("cacs", 4)
    expected = fm.samplers.cluster_order(gradients, data.size, 2)
    np.testing.assert_array_equal(after.sampler.order, expected)
    np.testing.assert_array_equal(
        after.sampler.ends, np.cumsum(np.array(problem.SIZES)[expected])
    )


@pytest.mark.parametrize("name", ["cacs", "clustered"])
def test_host_assisted_runs_can_be_continued(name):
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

    def norm(state, stores):
        squares = (jnp.vdot(p, p) for p in jax.tree.leaves(state.server.params))
        return {"norm": sum(squares)}

    _, history = train("clustered", 6, evaluate=norm, every=6)
    assert len(history) < 6 and np.isfinite(history["norm"].iloc[-1])


def test_host_work_is_wired_by_itself():
    """A sampler whose host work silently never happens; built or not, it must."""
    built = SAMPLERS["clustered"].build(problem.tools(2))
    sim, data = fm.simulation(AVERAGE, WORK, built), problem.data()
    assert sim.host_update.every == built.update.every == 2
    start = sim.init(problem.softmax_params(), data, KEY)
    last = start.clients.mine.last  # nobody asked for it
    found = sim.host_update.compute(data, start).sampler
    bins = fm.samplers.similar_bins(last, data.size, 2)
    np.testing.assert_array_equal(found, bins.cumsum(axis=1))
    assert not np.array_equal(found, start.sampler)
    # And a run of the spec does replace it.
    assert not np.array_equal(train("clustered", 6)[0].sampler, start.sampler)


@pytest.mark.parametrize(
    ("name", "lanes", "backend"),  # the devices are two
    [("cacs", 2, None), ("clustered", 2, None), ("clustered", 3, fm.backends.spread())],
)
def test_host_assisted_lanes_equal_single_runs(name, lanes, backend):
    """Each seed has its own model, so its own clusters."""
    sim = simulated(name)
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
    """Updated before rounds 0, 2 and 4 only, from what clients sent until then."""
    start, _ = train("clustered", 4)
    after, _ = train("clustered", 5)
    data = problem.data()
    bins = fm.samplers.similar_bins(start.clients.mine.last, data.size, 2)
    np.testing.assert_array_equal(after.sampler, bins.cumsum(axis=1))
    later, _ = train("clustered", 6)
    np.testing.assert_array_equal(later.sampler, after.sampler)


@pytest.mark.parametrize("first", [0, 1, 5])
def test_visits_end_where_the_host_has_work(first):
    """Updates lie between visits: inside of one they would be skipped."""
    update = fm.types.HostUpdate(None, every=2, warm_up=3)
    found = [*visits(first, first + 11, update, Pace(each=0.0))]
    assert [t for visit in found for t in range(*visit)] == [*range(first, first + 11)]
    begins = {begin for begin, _ in found}
    due = {t for t in range(first, first + 11) if host_updates.due(update, t)}
    assert due <= begins and (first >= 3 or 3 in begins)


# ---- by name -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("cacs", {"warm_up": 0}, "warm_up must be at least 1: got 0"),
        ("cacs", {"clusters": -1}, "clusters must not be negative: got -1"),
        ("cacs", {"clusters": 999}, r"clusters must lie in \[1, 100\].*got 999"),
        ("cacs", {"distance": "l2"}, "distance must be 'cosine' or 'angle': got 'l2'"),
        ("cacs", {"warm_up": 5}, "rounds must be more than warm_up, 5: got 5"),
        ("clustered", {"sampler.every": 0}, "every must be at least 1: got 0"),
    ],
)
def test_wrong_options_are_refused_before_compiling(sampler, options, message):
    """A run of hours must not fail after its warm-up."""
    with pytest.raises(ValueError, match=message):
        experiment = fm.Experiment(sampler=sampler, rounds=5, options=options)
        experiment.build().start(jax.random.key(0))
    with pytest.raises(ValueError, match=f"sampler {sampler} takes no pool: got 50"):
        fm.Experiment(sampler=sampler, pool=50).build()


@pytest.mark.parametrize("name", SAMPLERS)
def test_an_unknown_distance_is_refused(name):
    """Below the experiment too a typing error must name what there is."""
    with pytest.raises(ValueError, match="distance must be one of cosine, angle: got"):
        SAMPLERS[name].factory(tools(2), distance="l2")


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
    history = result.frame
    numbers = sum(leaf.size for leaf in jax.tree.leaves(result.params))
    sent = np.diff(history["bits_up"], prepend=0) / (32 * numbers)
    assert sent[0] == 100 and 100 < sent[1] <= 110 and sent[2] <= 10
    assert history["test_accuracy"].notna().tolist() == [False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["chunked:2", "sharded:1", "debug"])
@pytest.mark.parametrize("sampler", ["cacs", "clustered"])
def test_host_assisted_samplers_on_every_layout(sampler, backend):
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
    np.testing.assert_allclose(got.frame[columns], expected.frame[columns], rtol=1e-4)
