"""Warm-up rounds before the first: the two readings of CACS that count them apart."""

import dataclasses

import chex
import jax
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.algorithms.reference import CLIENTS, World, softmax_gradient

N, COHORT, EXTRA, LR = len(problem.SIZES), 3, 2, 0.5
P = np.array(problem.SIZES) / sum(problem.SIZES)
KEY = jax.random.key(4)
WORK = World().work(fm.losses.mean_loss(problem.softmax_net))
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=LR)
NUMBERS = (problem.FEATURES + 1) * problem.CLASSES


def flat(params):
    """As the reference has parameters: biases, then weights."""
    return np.concatenate([np.ravel(params[n]).astype(float) for n in ("b", "w")])


def warm_model():
    """FedAvg with everyone, in NumPy; the plan draws nothing."""
    x = flat(problem.softmax_params())
    for _ in range(EXTRA):
        y = [
            World().walk(x, i, LR, lambda y, b: softmax_gradient(y, *b))
            for i in range(N)
        ]
        x = x + sum(p * (own - x) for p, own in zip(P, y, strict=True))
    return x


def run(sampler, params, **options):
    sim = fm.simulation(AVERAGE, WORK, fm.spec(sampler, **options), cohort=COHORT)
    state = sim.init(params, problem.data(), KEY)
    return fm.run(sim, problem.data(), state, KEY, 3, progress=False)


@pytest.mark.thorough
@pytest.mark.parametrize("warm", ["kept", "discarded"])
def test_extra_rounds_are_those_of_everyone(warm):
    """Clusters come from the gradients at x^Te; rounds then go on from x^Te or x^0."""
    state, history = run(
        fm.samplers.clustered_adaptive,
        problem.softmax_params(),
        warm_up=EXTRA,
        warm=warm,
    )
    x = warm_model()
    gradients = np.array([softmax_gradient(x, *CLIENTS[i]) for i in range(N)])
    order = fm.samplers.cluster_order(gradients, problem.SIZES, COHORT)
    assert state.sampler.order.tolist() == order.tolist()
    assert order.tolist() != np.argsort(-P, kind="stable").tolist()
    begin = problem.softmax_params()
    if warm == "kept":
        b, w = np.split(x.astype(np.float32), [problem.CLASSES])
        begin = {"w": w.reshape(problem.FEATURES, -1), "b": b}
    expected, later = run(fm.samplers.adaptive, begin, order=tuple(order.tolist()))
    chex.assert_trees_all_close(state.server.params, expected.server.params, rtol=1e-4)
    assert history["round"].tolist() == [1, 2, 3]
    # The extra rounds and the gradients of everyone are paid for in the first.
    for way in ("bits_up", "bits_down"):
        paid = history[way] - later[way]
        assert (paid == (EXTRA + 1) * N * 32 * NUMBERS).all()


@pytest.mark.thorough
def test_every_seed_has_its_own_extra_rounds():
    """Two runs at once equal two runs one by one, also in what came before them."""
    one = fm.Experiment(
        algorithm="fedavg",
        sampler="cacs_kept",
        rounds=1,
        clients=8,
        cohort=3,
        model="logistic",
        options={"warm_up": 1},
    )
    both = one.run(2, progress=False)
    second = dataclasses.replace(one, seed=1).run(progress=False)
    lane = jax.tree.map(lambda leaf: leaf[1], both.params)
    chex.assert_trees_all_close(lane, second.params, rtol=1e-4, atol=1e-6)
