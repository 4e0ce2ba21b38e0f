"""Independent activation: the size's distribution, and who takes part."""

import math
from functools import cache, partial

import jax
import numpy as np
import pytest
from scipy import stats

import fedjax_mos as fm
from fedjax_mos.samplers.bernoulli import _log_binomial
from tests.samplers.population import ALPHA, KEYS, draw, near, unlike

N, M = 20, 3


@cache
def active(weights):
    return draw(
        partial(fm.samplers.bernoulli, weights=weights), M, 1 + np.arange(N) % 5
    )


def test_bernoulli_size_is_binomial_and_positive():
    """Independent activation has a random size; an empty round would divide by 0."""
    size = active("mean")[0].mask.sum(axis=1)
    assert size.min() == 1
    counts = np.bincount(size, minlength=N + 1)[1:]
    assert unlike(counts, stats.binom.pmf(np.arange(1, N + 1), N, M / N)) > ALPHA
    mean = M / (1 - (1 - M / N) ** N)
    near(size.mean(), mean, size.std() / np.sqrt(KEYS))


def test_bernoulli_treats_clients_alike():
    """Every client equally likely, every pair too; live clients are distinct."""
    cohort, _ = active("mean")
    on = np.zeros((KEYS, N))
    np.add.at(on, (np.arange(KEYS)[:, None], cohort.ids), cohort.mask)
    assert on.max() == 1
    size = np.arange(1, N + 1)
    chance = stats.binom.pmf(size, N, M / N)
    chance /= chance.sum()
    one = (chance * size / N).sum()
    near(on.mean(axis=0), one, np.sqrt(one * (1 - one) / KEYS))
    two = (chance * size * (size - 1) / N / (N - 1)).sum()
    pairs = (on.T @ on / KEYS)[np.triu_indices(N, 1)]
    near(pairs, two, np.sqrt(two * (1 - two) / KEYS))


@pytest.mark.parametrize("weights", ["mean", "share"])
def test_bernoulli_weights_sum_to_one(weights):
    """1 / |S|, or the shares within S; dead slots carry nothing."""
    cohort, w = active(weights)
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-5)
    assert (cohort.weights[~cohort.mask] == 0).all()
    mass = 1 + cohort.ids % 5 if weights == "share" else np.ones(cohort.ids.shape)
    mass = np.where(cohort.mask, mass, 0)
    expected = mass / mass.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cohort.weights, expected, rtol=1e-5)
    if weights == "mean":
        near(w.mean(axis=0), 1 / N, w.std(axis=0) / np.sqrt(KEYS))


def test_bernoulli_with_everybody():
    """M = N is full participation: log odds of 1 must not be asked for."""
    cohort, w = draw(fm.samplers.bernoulli, 5, (1, 2, 3, 4, 5), keys=3)
    assert cohort.mask.all() and cohort.ids.shape == (3, 5)
    np.testing.assert_allclose(w, 1 / 5, rtol=1e-6)


def total_variation(clients, cohort):
    slots = min(clients, math.ceil(cohort + 6 * math.sqrt(cohort) + 6))
    rate = cohort / clients
    ours = jax.jit(lambda: jax.nn.softmax(_log_binomial(clients, rate, slots)))()
    exact = stats.binom.pmf(np.arange(1, slots + 1), clients, rate)
    assert exact.sum() > 1 - (1 - rate) ** clients - 1e-9  # slots suffice
    return abs(np.asarray(ours, float) - exact / exact.sum()).sum() / 2


def test_bernoulli_probabilities():
    """The size's distribution must survive single precision (total variation)."""
    assert total_variation(N, M) < 1e-6
    assert total_variation(500, 25) < 1e-5
    assert total_variation(10**6, 1000) < 1e-3


def test_bernoulli_probabilities_of_a_large_cohort():
    """The same at a million clients and ten thousand slots."""
    assert total_variation(10**6, 10_000) < 1e-4
