"""Five things that are easy to get wrong, each in its own test."""

from functools import cache
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from fedjax_mos.data.store import views
from fedjax_mos.samplers.cohort import merge_duplicates
from tests import problem

N = len(problem.SIZES)
OFFSETS = np.cumsum(problem.SIZES) - problem.SIZES
BACKENDS = {
    "vmapped": fm.vmapped(),
    "chunked": fm.chunked(2),
    "one by one": fm.chunked(1),
    "sharded": fm.sharded(),
    "sharded chunks": fm.sharded(inner=fm.chunked(2)),
}
backends = pytest.mark.parametrize("backend", BACKENDS)
few_backends = pytest.mark.parametrize("backend", ["vmapped", "sharded chunks"])


class Server(NamedTuple):
    params: Any
    seen: Any = ()


def me(view):
    """Which client this is: client code is not told, but owns a known slice."""
    return jnp.searchsorted(jnp.asarray(OFFSETS), view.offset)


# ---- a client drawn twice ------------------------------------------------------------


def tally(work, *, clients):
    """Each client sends its indicator and counts its own participations."""

    def client(down, mine, view, key):
        up = jax.nn.one_hot(view.offset, clients)  # told by the slice it owns
        return up, mine + 1, {"work": view.share}

    def server(state, agg):
        return Server(state.params, (agg.mean, agg.sum, agg.live))

    def init(params):
        seen = (jnp.zeros(clients), jnp.zeros(clients), jnp.zeros((), jnp.int32))
        return Server(params, seen), jnp.zeros((), jnp.int32)

    return fm.Algorithm(init, (fm.Exchange(lambda s: s.params, client, server),))


def one_round(sampler, data, backend=None):
    """`seed -> (seen by the server, participations, info)` of a first round."""
    spec = fm.spec(tally, clients=data.order.shape[0])
    sim = fm.simulation(spec, None, sampler, backend=backend)
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
    cohort = merge_duplicates(jnp.array([3, 1, 3, 3]), jnp.array([0.1, 0.2, 0.3, 0.4]))
    run = one_round(problem.fixed_cohort(*cohort), problem.data(), BACKENDS[backend])
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
    part = fm.Partition(np.arange(sizes.sum()), sizes)
    data = fm.federate(np.zeros((43, 1), np.float32), np.zeros(43, int), part)
    run, weights = one_round(fm.multinomial(5), data), set()
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


def poisoned(work, *, bad):
    """Client `bad` gives NaN wherever it can; two exchanges, state in each."""

    def client(down, mine, view, key):
        i = me(view)
        poison = jnp.where(i == bad, jnp.nan, 1.0)
        up = jax.tree.map(lambda leaf: (leaf + i) * poison, down)
        return up, mine * poison + 1, {"m": i * poison}

    def server(state, agg):
        return Server(add(state.params, agg.mean), agg.sum)

    exchange = fm.Exchange(lambda s: s.params, client, server)
    return fm.Algorithm(
        lambda params: (Server(params, params), jnp.zeros(2)), (exchange, exchange)
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
        None,
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
        lambda params: (Server(params, jnp.zeros(3)), jnp.zeros(3)),
        (fm.Exchange(lambda s: (), client, server),),
    )


@pytest.mark.parametrize(
    ("backend", "sampler"),
    [
        ("vmapped", fm.uniform(3)),
        ("vmapped", fm.adaptive(3)),
        ("chunked", fm.adaptive(3)),
        ("sharded", fm.adaptive(3)),
    ],
    ids=["vmapped ucs", "vmapped acs", "chunked acs", "sharded acs"],
)
def test_population_sums_use_all_clients(backend, sampler):
    """agg.mean carries the cohort's weights and would let c drift from mean c_i."""
    sim = fm.simulation(fm.spec(controlled), None, sampler, backend=BACKENDS[backend])
    data, key = problem.data(), jax.random.key(3)
    state = sim.init({"w": jnp.zeros(1)}, data, key)
    state, (info, _) = jax.jit(lambda d, s, k: fm.rollout(sim, d, s, k, 8))(
        data, state, key
    )
    rows = np.asarray(state.clients.mine)
    assert (np.abs(rows).sum(axis=1) > 0).sum() > 3  # more than one cohort took part
    assert np.ptp(np.asarray(info.cohort.weights)) > 0.1
    np.testing.assert_allclose(state.server.seen, rows.mean(axis=0), atol=1e-6)


# ---- STORM's two gradients -----------------------------------------------------------


def noisy(params, batch, key):
    """Linear in the parameters: the slope is a whole number from batch and key."""
    noise = jax.random.randint(key, params["w"].shape, -50, 50)
    slope = noise + jnp.round(100 * batch.x.sum())
    return (params["w"] * slope).sum()


@pytest.mark.parametrize("first_batch", ["full", "step", 4])
def test_both_gradients_see_the_same_batch_and_key(first_batch):
    """With storm = 0 the correction of a linear loss must cancel: d_k = d_0."""
    hp = {"lr": 1.0, "prox": 0.0, "server_momentum": 0.0}
    work = fm.local_work(noisy, fm.with_replacement(4, 2))
    data, x = problem.data(), {"w": jnp.zeros(3)}
    view, key = views(data, jnp.int32(3)), jax.random.key(4)

    @jax.jit
    def slopes(storm, steps):
        plan = fm.with_replacement(4, 2)

        def shorter(view, key):  # the first `steps` steps of the same plan
            made = plan(view, key)
            return made._replace(active=jnp.arange(4) < steps)

        algo = fm.fedmos(
            work._replace(plan=shorter), storm=storm, first_batch=first_batch, **hp
        )
        return -algo.exchanges[0].client(x, (), view, key)[0]["w"]

    first = np.asarray(slopes(0.0, 1))
    assert np.abs(first).min() > 0
    for steps in (2, 3, 4):
        np.testing.assert_array_equal(slopes(0.0, steps), steps * first)
    fresh = np.diff([np.asarray(slopes(1.0, steps)) for steps in (1, 2, 3, 4)], axis=0)
    assert len({tuple(d) for d in [first, *fresh]}) == 4  # and each step a fresh batch


def test_gradient_calls_come_in_pairs():
    """Two calls per step: new point, then old point, on one batch under one key."""
    plan = fm.with_replacement(4, 2)
    view, key = views(problem.data(), jnp.int32(3)), jax.random.key(4)

    @jax.jit
    def program():
        calls = []

        def gradient(params, batch, key):
            calls.append((batch.x, jax.random.key_data(key), params["w"]))
            return jnp.zeros(()), {"w": jnp.ones(())}

        work = fm.local_work(noisy, plan)._replace(gradient=gradient)
        hp = {"lr": 0.5, "storm": 0.0, "prox": 0.0, "server_momentum": 0.0}
        algo = fm.fedmos(work, first_batch="step", **hp)
        with jax.disable_jit():  # the scan becomes a loop, whose calls can be noted
            algo.exchanges[0].client({"w": jnp.zeros(())}, (), view, key)
        return calls, plan(view, jax.random.fold_in(key, local.PLAN))

    calls, made = program()
    x, keys = problem.arrays()[0], jax.random.key_data(made.keys)
    points = [0.0, -0.5, -1.0, -1.5]
    expected = [(0, 0)] + [(k, k - back) for k in (1, 2, 3) for back in (0, 1)]
    assert len(calls) == len(expected)
    for (batch, used, point), (k, at) in zip(calls, expected, strict=True):
        np.testing.assert_array_equal(batch, x[np.asarray(made.rows[k])])
        np.testing.assert_array_equal(used, keys[k])
        assert float(point) == points[at]


# ---- padding -------------------------------------------------------------------------


def surrounded(poison, label):
    """The toy population in a store whose first and last rows nobody owns."""
    x, y = problem.arrays()
    order, size = problem.partition()
    strange = np.full((1, problem.FEATURES), poison, x.dtype)
    return fm.types.FederatedData(
        x=jnp.asarray(np.concatenate([strange, x, strange])),
        y=jnp.asarray(np.concatenate([[label], y, [label]])),
        order=jnp.asarray(order + 1, jnp.int32),
        offset=jnp.asarray(np.cumsum(size) - size, jnp.int32),
        size=jnp.asarray(size, jnp.int32),
        largest=int(size.max()),
    )


def finite_and_equal(fn, poison, label=0):
    """`fn(data)` is the same whether padding points to a real row or to poison."""
    fn = jax.jit(fn)
    got, expected = fn(surrounded(poison, label)), fn(problem.data())
    chex.assert_tree_all_finite(got)
    chex.assert_trees_all_close(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
def test_padding_never_enters_an_evaluation(poison):
    """A mean over padding would shift every reported number."""
    metrics, params = fm.classification(problem.softmax_net), problem.softmax_params()
    whole, each = fm.evaluator(metrics, 10), fm.per_client(metrics, 10)
    finite_and_equal(
        lambda data: (whole(params, {"train": data}), each(params, data)), poison
    )


TOOLS = fm.local_work(
    fm.cross_entropy(problem.softmax_net), fm.epochs(2, 5), micro_batch=5
)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
def test_padding_never_enters_a_gradient(poison):
    """Short last batches, full gradients and large batches are all padded."""
    params, key = problem.softmax_params(), jax.random.key(0)

    def work(data):
        def one(client):
            view = views(data, client)
            plan = TOOLS.plan(view, key)

            def step(params, now):
                value, g = TOOLS.gradient(params, now.batch, now.key)
                return TOOLS.descend(params, g, 0.3, now.epoch), (value, g)

            big = local.large_batch(view, key, 8)
            return (
                local.local_scan(step, params, view, plan),
                TOOLS.full_gradient(params, view, key),
                TOOLS.gradient(params, big, key),
            )

        return jax.vmap(one)(jnp.arange(N))

    finite_and_equal(work, poison)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
@pytest.mark.parametrize("first_batch", ["full", 8])
def test_padding_never_enters_a_round(first_batch, poison):
    """The whole round on a poisoned store must equal the round without poison."""
    hp = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
    spec = fm.spec(fm.fedmos, first_batch=first_batch, **hp)
    sim = fm.simulation(spec, TOOLS, fm.uniform(N))
    params, key = problem.softmax_params(), jax.random.key(0)

    def work(data):
        state, info = sim.step(data, sim.init(params, data, key), key)
        return state.server, info.metrics

    finite_and_equal(work, poison)
