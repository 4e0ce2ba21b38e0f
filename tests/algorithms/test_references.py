"""Every algorithm against an independent NumPy program written from its paper.

Softmax regression, a plan without randomness, unequal clients, partial participation.
The cohorts and their weights are taken from the run: samplers have tests of their own.
The same file runs in float64 through tests/test_float64.py.
"""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem

ROUNDS, STEPS, BATCH = 5, 3, 4
EXACT = jax.config.jax_enable_x64
TOLERANCE = {"rtol": 1e-9, "atol": 1e-12} if EXACT else {"rtol": 1e-4, "atol": 1e-6}


def client_data():
    """Client -> (features, labels), by the partition alone."""
    x, y = problem.arrays()
    order, size = problem.partition()
    ends = np.cumsum(size)
    return [
        (x[order[e - s : e]].astype(float), y[order[e - s : e]])
        for e, s in zip(ends, size, strict=True)
    ]


def gradient(theta, x, y):
    """Mean cross-entropy gradient of softmax(x w + b); theta = rows of w, then b."""
    z = x @ theta[:-1] + theta[-1]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    r = (p - np.eye(problem.CLASSES)[y]) / len(y)
    return np.vstack([x.T @ r, r.sum(0)])


def batch(x, y, k):
    rows = np.arange(k * BATCH, (k + 1) * BATCH) % len(y)
    return x[rows], y[rows]


def fedavg(theta, cohorts, *, lr, server_lr):
    for cohort in cohorts:
        total = 0
        for i, w in cohort:
            local = theta.copy()
            for k in range(STEPS):
                local -= lr * gradient(local, *batch(*client_data()[i], k))
            total = total + w * (local - theta)
        theta = theta + server_lr * total
    return theta


def fedmos(theta, cohorts, *, lr, storm, prox, server_momentum, first_batch="full"):
    """Algorithm 1 of the paper, with its own factor eta I."""
    u = np.zeros_like(theta)
    for cohort in cohorts:
        total = 0
        for i, w in cohort:
            data = client_data()[i]
            first = data if first_batch == "full" else batch(*data, 0)
            before, d = theta, gradient(theta, *first)
            local = theta - lr * d
            for k in range(1, STEPS):
                b = batch(*data, k)
                d = gradient(local, *b) + (1 - storm) * (d - gradient(before, *b))
                before, local = local, local - lr * d - prox * (local - theta)
            total = total + w * (local - theta)
        u = server_momentum * u - total / (lr * STEPS)
        theta = theta - lr * STEPS * u
    return theta


def fedmos_release(theta, cohorts, *, lr, storm, prox, server_momentum):
    """The released optimiser, buffers and all (section 2.4 of our notes on it)."""
    v = np.zeros_like(theta)
    for t, cohort in enumerate(cohorts):
        total = 0
        for i, w in cohort:
            local, d, stored = theta.copy(), None, 0
            for k in range(STEPS):
                g = gradient(local, *batch(*client_data()[i], k))
                if k == 0:
                    d = g  # the stored gradient stays zero for the second step
                else:
                    d, stored = g + (1 - storm) * (d - stored), g
                local = local - lr * d - prox * (local - theta)
            total = total + w * (local - theta)
        v = server_momentum * v + total if t else v  # round 0 never enters
        theta = theta + (v if t else total)
    return theta


MOS = {"lr": 0.5, "storm": 0.3, "prox": 0.1, "server_momentum": 0.6}
CASES = {
    "fedavg": (fedavg, fm.fedavg, {"lr": 0.5, "server_lr": 0.8}),
    "fedmos full": (fedmos, fm.fedmos, MOS | {"first_batch": "full"}),
    "fedmos minibatch": (fedmos, fm.fedmos, MOS | {"first_batch": "step"}),
    "fedmos release": (fedmos_release, fm.fedmos_release, MOS),
}


@pytest.mark.parametrize("sampler", [fm.uniform(3), fm.adaptive(4)], ids=["ucs", "acs"])
@pytest.mark.parametrize("case", CASES)
def test_matches_the_paper(case, sampler):
    """An algorithm that drifts from its paper by one sign or factor fails here."""
    reference, factory, options = CASES[case]
    loss = fm.cross_entropy(problem.softmax_net)
    work = fm.local_work(loss, problem.cyclic(STEPS, BATCH), micro_batch=5)
    sim = fm.simulation(fm.spec(factory, **options), work, sampler)
    data, key = problem.data(), jax.random.key(5)
    state = sim.init(problem.softmax_params(), data, key)
    state, (info, _) = jax.jit(lambda d, s, k: fm.rollout(sim, d, s, k, ROUNDS))(
        data, state, key
    )
    ids, weights, mask = (np.asarray(leaf) for leaf in info.cohort)
    cohorts = [
        [(i, w) for i, w, live in zip(*row, strict=True) if live]
        for row in zip(ids, weights, mask, strict=True)
    ]
    assert len({tuple(i for i, _ in cohort) for cohort in cohorts}) > 1
    start = problem.softmax_params()
    theta = np.vstack([start["w"], start["b"]]).astype(float)
    expected = reference(theta, cohorts, **options)
    got = np.vstack([state.server.params["w"], state.server.params["b"]])
    np.testing.assert_allclose(got, expected, **TOLERANCE)
