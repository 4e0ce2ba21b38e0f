"""STORM's directions inside one client, and what they make of whole runs."""

from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from fedjax_mos.data.store import views
from tests import problem
from tests.client.toy import LOSS, flat, rows_of, softmax_gradient, view, whole

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("first_batch", [0, -3, "all", 2.5])
def test_first_batch_is_checked(first_batch):
    """A typo must not silently choose another first gradient."""
    work = fm.local_work(LOSS, fm.plans.epochs(1, 4))
    hp = {"lr": 0.1, "storm": 0.1, "prox": 0.0, "server_momentum": 0.0}
    with pytest.raises(ValueError, match="first_batch must be"):
        fm.algorithms.fedmos(work, first_batch=first_batch, **hp)


def rollout(algorithm, plan, data, params, rounds):
    n = data.size.shape[0]
    weights = np.asarray(data.size) / data.order.shape[0]
    sampler = problem.fixed_cohort(np.arange(n), weights)
    sim = fm.simulation(algorithm, fm.local_work(LOSS, plan, micro_batch=5), sampler)
    key = jax.random.key(0)
    state = sim.init(params, data, key)
    run = jax.jit(lambda d, s, k: fm.rollout(sim, d, s, k, rounds))
    state, trace = run(data, state, key)
    return state.server.params, trace.info


def test_one_client_is_centralised_gradient_descent():
    """N = M = 1, one full batch a round: nothing federated may be left."""
    data, params = fm.federate(*problem.arrays()), problem.softmax_params()
    algorithm = fm.spec(fm.algorithms.fedavg, lr=0.5, server_lr=1.0)
    got, info = rollout(algorithm, fm.plans.epochs(1, 43), data, params, 5)
    theta, x, y = flat(params), *problem.arrays()
    for t in range(5):
        z = x.astype(float) @ theta[:-1] + theta[-1]
        losses = np.log(np.exp(z).sum(1)) - z[np.arange(43), y]
        np.testing.assert_allclose(info.metrics["loss"][t], losses.mean(), rtol=1e-4)
        theta = theta - 0.5 * softmax_gradient(theta, np.arange(43))
    np.testing.assert_allclose(flat(got), theta, rtol=1e-4, atol=1e-6)


def test_storm_is_exact_without_noise():
    """On full batches the correction vanishes: FedMoS is local gradient descent."""
    data, params = problem.data(), problem.softmax_params()
    hp = {"lr": 0.5, "prox": 0.0, "server_momentum": 0.0}
    results = [
        rollout(
            fm.spec(fm.algorithms.fedmos, storm=storm, **hp), whole(4), data, params, 3
        )[0]
        for storm in (0.1, 1.0)
    ]
    algorithm = fm.spec(fm.algorithms.fedavg, lr=0.5, server_lr=1.0)
    expected, _ = rollout(algorithm, whole(4), data, params, 3)
    for got in results:
        chex.assert_trees_all_close(got, expected, rtol=1e-4, atol=1e-6)


@cache
def recorded(factory, plan, **options):
    """One client's message, its (y_k, d_k) and its (point, gradient) calls."""
    work = fm.local_work(LOSS, plan, micro_batch=5)

    @jax.jit
    def program():
        directions, gradients = [], []

        def gradient(params, now):
            value, g = work.gradient(params, now)
            gradients.append((params, g))
            return value, g

        def descend(params, direction, lr, now):
            directions.append((params, direction))
            return work.descend(params, direction, lr, now)

        tools = work._replace(gradient=gradient, descend=descend)
        algo = factory(tools, server_momentum=0.0, **options)
        args = (problem.softmax_params(), (), view(3), jax.random.key(2))
        with jax.disable_jit():  # the scan becomes a loop, whose steps can be noted
            delta = algo.exchanges[0].client(*args)[0]
        return delta, directions, gradients

    def is_params(value):
        return isinstance(value, dict)

    return jax.tree.map(flat, program(), is_leaf=is_params)


def test_storm_directions_are_full_gradients():
    """d_k = grad f_i(y_k) at every step when batches have no noise."""
    _, directions, _ = recorded(
        fm.algorithms.fedmos, whole(3), lr=0.5, storm=0.1, prox=0.2
    )
    assert len(directions) == 3
    for y, d in directions:
        expected = softmax_gradient(y, rows_of(3))
        np.testing.assert_allclose(d, expected, rtol=1e-4, atol=1e-6)


MINI = fm.plans.with_replacement(5, 3)


def test_the_unrolled_displacement():
    """delta_i = -eta sum_k (1 - mu)^(I-1-k) d_k, Eq. (40) with its sign."""
    lr, mu = 0.5, 0.3
    delta, directions, _ = recorded(
        fm.algorithms.fedmos, MINI, lr=lr, storm=0.4, prox=mu
    )
    ds = [d for _, d in directions]
    I = len(ds)  # noqa: E741
    assert I == 5
    expected = -lr * sum((1 - mu) ** (I - 1 - k) * d for k, d in enumerate(ds))
    np.testing.assert_allclose(delta, expected, rtol=1e-4, atol=1e-6)


def test_storm_recursion():
    """d_k = g(y_k) + (1 - a)(d_{k-1} - g(y_{k-1})), from the recorded gradients."""
    _, directions, gradients = recorded(
        fm.algorithms.fedmos, MINI, lr=0.5, storm=0.4, prox=0.3
    )
    d = softmax_gradient(flat(problem.softmax_params()), rows_of(3))
    np.testing.assert_allclose(directions[0][1], d, rtol=1e-4, atol=1e-6)
    for k in range(1, 5):
        (y, g), (y_before, stale) = gradients[2 * k - 2 : 2 * k]
        np.testing.assert_array_equal(y, directions[k][0])
        np.testing.assert_array_equal(y_before, directions[k - 1][0])
        d = g + (1 - 0.4) * (d - stale)
        np.testing.assert_allclose(directions[k][1], d, rtol=1e-4, atol=1e-6)


def test_the_release_adds_a_fading_first_gradient():
    """d_k = g_k + (1 - a)^k g_0: what the published program really computes."""
    a = 0.4
    delta, directions, gradients = recorded(
        fm.algorithms.fedmos_release, MINI, lr=0.5, storm=a, prox=0.3
    )
    assert len(directions) == len(gradients) == 5
    first = gradients[0][1]
    np.testing.assert_allclose(directions[0][1], first, rtol=1e-6)
    for k in range(1, 5):
        expected = gradients[k][1] + (1 - a) ** k * first
        np.testing.assert_allclose(directions[k][1], expected, rtol=1e-4, atol=1e-6)
    ds = [d for _, d in directions]
    expected = -0.5 * sum(0.7 ** (4 - k) * d for k, d in enumerate(ds))
    np.testing.assert_allclose(delta, expected, rtol=1e-4, atol=1e-6)


# ---- the two gradients of a step -----------------------------------------------------


def noisy(params, batch, key):
    """Linear in the parameters: the slope is a whole number from batch and key."""
    noise = jax.random.randint(key, params["w"].shape, -50, 50)
    slope = noise + jnp.round(100 * batch.x.sum())
    return (params["w"] * slope).sum()


@pytest.mark.parametrize("first_batch", ["full", "step", 4])
def test_both_gradients_see_the_same_batch_and_key(first_batch):
    """With storm = 0 the correction of a linear loss must cancel: d_k = d_0."""
    hp = {"lr": 1.0, "prox": 0.0, "server_momentum": 0.0}
    work = fm.local_work(noisy, fm.plans.with_replacement(4, 2))
    data, x = problem.data(), {"w": jnp.zeros(3)}
    view, key = views(data, jnp.int32(3)), jax.random.key(4)

    @jax.jit
    def slopes(storm, steps):
        plan = fm.plans.with_replacement(4, 2)

        def shorter(view, key):  # the first `steps` steps of the same plan
            made = plan(view, key)
            return made._replace(active=jnp.arange(4) < steps)

        algo = fm.algorithms.fedmos(
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
    plan = fm.plans.with_replacement(4, 2)
    view, key = views(problem.data(), jnp.int32(3)), jax.random.key(4)

    @jax.jit
    def program():
        calls = []

        def gradient(params, now):
            calls.append((now.batch.x, jax.random.key_data(now.key), params["w"]))
            return jnp.zeros(()), {"w": jnp.ones(())}

        work = fm.local_work(noisy, plan)._replace(gradient=gradient)
        hp = {"lr": 0.5, "storm": 0.0, "prox": 0.0, "server_momentum": 0.0}
        algo = fm.algorithms.fedmos(work, first_batch="step", **hp)
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
