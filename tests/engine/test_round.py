"""Three things about cohorts that are easy to get wrong, each in its own test."""

from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.problem import Server

BACKENDS = {
    "vmapped": fm.backends.vmapped(),
    "chunked": fm.backends.chunked(2),
    "one by one": fm.backends.chunked(1),
    "sharded": fm.backends.sharded(),
    "sharded chunks": fm.backends.sharded(inner=fm.backends.chunked(2)),
}
backends = pytest.mark.parametrize("backend", BACKENDS)
few_backends = pytest.mark.parametrize("backend", ["vmapped", "sharded chunks"])


# ---- a client drawn twice ------------------------------------------------------------


def tally(work, *, clients: int):
    """Each client sends its indicator and counts its own participations."""

    def client(down, mine, view, key):
        up = jax.nn.one_hot(view.offset, clients)  # told by the slice it owns
        return up, mine + 1, {"work": view.share}

    def server(state, agg):
        return Server(state.params, (agg.mean, agg.sum, agg.live))

    def init(params, key):
        seen = (jnp.zeros(clients), jnp.zeros(clients), jnp.zeros((), jnp.int32))
        return Server(params, seen), jnp.zeros((), jnp.int32)

    return fm.Algorithm(init, (fm.Exchange(lambda s: s.params, client, server),))


def one_round(sampler, data, backend=None):
    """`seed -> (seen by the server, participations, info)` of a first round."""
    spec = fm.spec(tally, clients=data.order.shape[0])
    sim = fm.simulation(spec, problem.work(), sampler, backend=backend)
    before = sim.init({"w": jnp.zeros(2)}, data, jax.random.key(0))
    step = jax.jit(sim.step)

    def run(seed):
        state, info = step(data, before, jax.random.key(seed))
        at = np.asarray(data.offset)
        mean, total, live = state.server.seen
        return mean[at], total[at], int(live), state.clients.mine, info

    return run


@few_backends
def test_a_client_drawn_twice_trains_once(backend):
    """Else it counts twice in sums and bits, or half of its weight is lost."""
    cohort = fm.samplers.merge_duplicates(
        jnp.array([3, 1, 3, 3]), jnp.array([0.1, 0.2, 0.3, 0.4])
    )
    run = one_round(
        problem.fixed_cohort(*cohort[:3]), problem.data(), BACKENDS[backend]
    )
    mean, total, live, times, info = run(1)
    np.testing.assert_allclose(mean, [0, 0.2, 0, 0.8, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(total, [0, 1, 0, 1, 0, 0])
    np.testing.assert_array_equal(times, [0, 1, 0, 1, 0, 0])
    assert live == 2
    assert np.asarray(info.bits_up).sum() == 2 * 32 * sum(problem.SIZES)
    assert np.asarray(info.bits_down).sum() == 2 * 32 * 2
    shares = np.array(problem.SIZES) / sum(problem.SIZES)
    np.testing.assert_allclose(info.metrics["work"], shares[[1, 3]].mean(), rtol=1e-6)


def test_a_dominating_client_keeps_its_weight():
    """Multinomial draws of one huge client: one training, all of its weight."""
    sizes = np.array([1, 40, 1, 1])
    part = fm.partitions.Partition(np.arange(sizes.sum()), sizes)
    data = fm.federate(np.zeros((43, 1), np.float32), np.zeros(43, int), part)
    run, weights = one_round(fm.samplers.multinomial(problem.tools(5)), data), set()
    for seed in range(6):
        mean, total, live, times, info = run(seed)
        ids, mask = np.asarray(info.cohort.ids), np.asarray(info.cohort.mask)
        drawn = np.bincount(ids, minlength=4)  # merging leaves all draws in `ids`
        assert drawn[1] > 1 and mask[ids == 1].sum() == 1
        np.testing.assert_allclose(mean, drawn / 5, rtol=1e-6)
        np.testing.assert_array_equal(total, drawn > 0)
        np.testing.assert_array_equal(times, drawn > 0)
        assert live == mask.sum()
        weights.add(float(mean[1]))
    assert len(weights) > 1


# ---- dead slots ----------------------------------------------------------------------


def poisoned(work, *, bad: int):
    """Client `bad` gives NaN wherever it can; two exchanges, state in each."""

    def client(down, mine, view, key):
        i = view.id
        poison = jnp.where(i == bad, jnp.nan, 1.0)
        up = jax.tree.map(lambda leaf: (leaf + i) * poison, down)
        return up, mine * poison + 1, {"m": i * poison}

    def server(state, agg):
        return Server(add(state.params, agg.mean), agg.sum)

    exchange = fm.Exchange(lambda s: s.params, client, server)
    return fm.Algorithm(
        lambda params, key: (Server(params, params), jnp.zeros(2)), (exchange, exchange)
    )


def add(a, b):
    return jax.tree.map(jnp.add, a, b)


def memory():
    """A channel that keeps what it carried last: NaN if that was NaN."""

    def send(state, wire, key, context):
        return wire, add(state, wire.value)

    return fm.types.Channel(lambda zeros: zeros, send)


@cache
def poison_step(backend, cohort):
    ids, weights, mask = cohort
    sampler = problem.fixed_cohort(ids, weights, mask)
    sim = fm.simulation(
        fm.spec(poisoned, bad=2),
        problem.work(),
        sampler,
        uplink=memory(),
        downlink=memory(),
        backend=BACKENDS[backend],
    )
    data = problem.data()
    params = {"w": jnp.array([1.0, 2.0]), "b": jnp.ones(())}
    state = sim.init(params, data, jax.random.key(0))
    return state, *jax.jit(sim.step)(data, state, jax.random.key(1))


@backends
def test_a_dead_slot_changes_nothing(backend):
    """0 * NaN is NaN: a masked product or a written row would ruin the run."""
    dead = ((2, 4, 2, 1, 2), (0.7, 0.25, 0.7, 0.5, 0.7), (False, True) * 2 + (False,))
    _, expected, plain = poison_step("vmapped", ((4, 1), (0.25, 0.5), (True, True)))
    before, state, info = poison_step(backend, dead)
    chex.assert_tree_all_finite((state, info.metrics))
    chex.assert_trees_all_close(state, expected, rtol=1e-6)
    chex.assert_trees_all_close(info.metrics, plain.metrics, rtol=1e-6)
    assert float(info.metrics["m"]) == 2.5
    live = np.array(dead[2])
    for got, one in ((info.bits_up, plain.bits_up), (info.bits_down, plain.bits_down)):
        assert (np.asarray(got)[~live] == 0).all()
        np.testing.assert_array_equal(np.asarray(got)[live], one)
    others = np.array([0, 2, 3, 5])
    untouched = jax.tree.map(lambda leaf: leaf[others], (before.clients, state.clients))
    chex.assert_trees_all_equal(*untouched)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), before, state)
    assert all(jax.tree.leaves(changed.clients))


def test_the_poison_works():
    """The same client alive must give NaN, else the test above shows nothing."""
    _, state, info = poison_step("vmapped", ((2, 4), (0.5, 0.5), (True, True)))
    assert np.isnan(state.server.params["w"]).all()
    assert np.isnan(info.metrics["m"])
    assert np.isnan(state.clients.mine[2]).all()


@few_backends
def test_a_cohort_of_dead_slots_only(backend):
    """A round in which nobody takes part must leave the model where it is."""
    before, state, info = poison_step(backend, ((2, 2), (0.5, 0.5), (False, False)))
    chex.assert_trees_all_equal(state.server.params, before.server.params)
    chex.assert_trees_all_equal(state.clients, before.clients)
    assert float(info.metrics["m"]) == 0


# ---- population sums -----------------------------------------------------------------


def controlled(work):
    """Keeps c = mean over ALL clients of c_i on the server, one cohort at a time."""

    def client(down, mine, view, key):
        new = 0.3 * mine + jax.random.normal(key, mine.shape)
        return new - mine, new, {}

    def server(state, agg):
        return Server(state.params, state.seen + agg.sum / agg.num_clients)

    return fm.Algorithm(
        lambda params, key: (Server(params, jnp.zeros(3)), jnp.zeros(3)),
        (fm.Exchange(lambda s: (), client, server),),
    )


@pytest.mark.parametrize(
    ("backend", "sampler"),
    [
        ("vmapped", fm.samplers.uniform(problem.tools(3))),
        ("vmapped", fm.samplers.adaptive(problem.tools(3))),
        ("chunked", fm.samplers.adaptive(problem.tools(3))),
        ("sharded", fm.samplers.adaptive(problem.tools(3))),
    ],
    ids=["vmapped ucs", "vmapped acs", "chunked acs", "sharded acs"],
)
def test_population_sums_use_all_clients(backend, sampler):
    """agg.mean carries the cohort's weights and would let c drift from mean c_i."""
    sim = fm.simulation(
        fm.spec(controlled), problem.work(), sampler, backend=BACKENDS[backend]
    )
    data, key = problem.data(), jax.random.key(3)
    state = sim.init({"w": jnp.zeros(1)}, data, key)
    state, trace = jax.jit(lambda d, s, k: fm.rollout(sim, d, s, k, 8))(
        data, state, key
    )
    rows = np.asarray(state.clients.mine)
    assert (np.abs(rows).sum(axis=1) > 0).sum() > 3  # more than one cohort took part
    assert np.ptp(np.asarray(trace.info.cohort.weights)) > 0.1
    np.testing.assert_allclose(state.server.seen, rows.mean(axis=0), atol=1e-6)
