"""Methods whose clients remember, against NumPy; clients leave and come back."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.store import views
from tests import problem
from tests.algorithms.reference import (
    EXACT,
    IMPORTANCE,
    Case,
    World,
    assert_partial,
    assert_path,
)

pytestmark = pytest.mark.thorough

N = len(problem.SIZES)


def scaffold(x, cohorts, world, *, lr, server_lr, option=2):
    c, own = np.zeros_like(x), np.zeros((N, x.size))
    for t, cohort in enumerate(cohorts):
        rate, delta, change = world.lr(lr, t), 0, 0
        for i, w in cohort:

            def direction(y, batch, i=i, c=c):
                return world.g(y, batch) - own[i] + c

            y = world.walk(x, i, rate, direction)
            moved = (x - y) / sum(world.rates(i, rate))
            new = world.full(x, i) if option == 1 else own[i] - c + moved
            delta, change = delta + w * (y - x), change + new - own[i]
            own[i] = new
        x, c = x + server_lr * delta, c + change / N
        yield x


def feddyn(x, cohorts, world, *, lr, dyn, scale_by_importance=False):
    """The official form: h_i accumulates displacements, the dual is -alpha_i h_i."""
    h = np.zeros((N, x.size))
    for t, cohort in enumerate(cohorts):
        delta = 0
        for i, w in cohort:
            alpha = dyn / IMPORTANCE[i] if scale_by_importance else dyn

            def direction(y, batch, i=i, x=x, alpha=alpha):
                return world.g(y, batch, alpha * h[i] + alpha * (y - x))

            moved = world.walk(x, i, world.lr(lr, t), direction) - x
            h[i], delta = h[i] + moved, delta + w * moved
        x = x + delta + h.mean(0)
        yield x


def feddyn_dual(x, cohorts, world, *, lr, dyn):
    """The paper's form: duals lambda_i, the server's h and the division by alpha."""
    dual, h = np.zeros((N, x.size)), np.zeros_like(x)
    for t, cohort in enumerate(cohorts):
        delta = 0
        for i, w in cohort:

            def direction(y, batch, i=i, x=x):
                return world.g(y, batch, dyn * (y - x) - dual[i])

            moved = world.walk(x, i, world.lr(lr, t), direction) - x
            dual[i] = dual[i] - dyn * moved
            h, delta = h - dyn / N * moved, delta + w * moved
        x = x + delta - h / dyn
        yield x


def feddc(x, cohorts, world, *, lr, dyn, scale_by_importance=False):
    drift, own, s = np.zeros((N, x.size)), np.zeros((N, x.size)), np.zeros_like(x)
    for t, cohort in enumerate(cohorts):
        rate, delta, change = world.lr(lr, t), 0, 0
        for i, w in cohort:
            omega = IMPORTANCE[i] if scale_by_importance else 1

            def direction(y, batch, i=i, x=x, s=s, omega=omega):
                pull = dyn / omega * (y - x + drift[i])
                return world.g(y, batch, pull + s / omega - own[i])

            moved = world.walk(x, i, rate, direction) - x
            new = own[i] - s / omega - moved / sum(world.rates(i, rate))
            delta, change = delta + w * moved, change + omega * (new - own[i])
            drift[i], own[i] = drift[i] + moved, new
        x, s = x + delta + drift.mean(0), s + change / N
        yield x


SGD = {"lr": 0.3, "server_lr": 0.8}
DYN = {"lr": 0.3, "dyn": 0.4}
SCALED = DYN | {"scale_by_importance": True}
RAGGED = World(epochs=2, weight_decay=0.05, epoch_decay=0.8, round_decay=0.9)
CASES = {
    "scaffold 1": Case(scaffold, fm.algorithms.scaffold, SGD | {"option": 1}),
    "scaffold 2": Case(scaffold, fm.algorithms.scaffold, SGD),
    "scaffold bernoulli": Case(
        scaffold,
        fm.algorithms.scaffold,
        SGD,
        World(),
        fm.samplers.bernoulli(problem.tools(3)),
    ),
    "scaffold options": Case(
        scaffold, fm.algorithms.scaffold, SGD, RAGGED._replace(clip=0.4)
    ),
    "feddyn": Case(feddyn, fm.algorithms.feddyn, DYN),
    "feddyn dual": Case(feddyn_dual, fm.algorithms.feddyn, DYN),
    "feddyn alpha 0": Case(feddyn, fm.algorithms.feddyn, DYN | {"dyn": 0.0}),
    "feddyn scaled": Case(feddyn, fm.algorithms.feddyn, SCALED, RAGGED),
    "feddc": Case(feddc, fm.algorithms.feddc, DYN),
    "feddc alpha 0": Case(feddc, fm.algorithms.feddc, DYN | {"dyn": 0.0}),
    "feddc scaled": Case(feddc, fm.algorithms.feddc, SCALED, RAGGED),
}


@pytest.mark.parametrize("case", CASES)
def test_matches_the_paper(case):
    """State that leaks between clients, or is lost in an absence, fails here."""
    got, expected = CASES[case].run()
    assert_partial(got.cohorts, returning=True)
    assert_path(got.path, expected)


def test_shares_have_the_precision_of_the_parameters():
    """Shares and weights rounded to single precision spoil a float64 run."""
    p = np.array(problem.SIZES) / sum(problem.SIZES)
    tolerance = 1e-14 if EXACT else 1e-6
    view = views(problem.data(), np.arange(N))
    np.testing.assert_allclose(view.importance, N * p, rtol=tolerance)
    sampler, data, key = (
        fm.samplers.uniform(problem.tools(N)),
        problem.data(),
        jax.random.key(0),
    )
    seen = fm.types.SamplerView(np.zeros((), int), None, data)
    cohort, _ = sampler.sample(sampler.init(seen, key), seen, key)
    np.testing.assert_allclose(cohort.weights, p[cohort.ids], rtol=tolerance)
