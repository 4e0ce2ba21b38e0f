"""A million clients: unique, unbiased by region, and exact in their bins."""

from functools import cache

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from tests.samplers.population import ALPHA, population, see, tools, unlike

MANY, SLOTS = 1_000_000, 1000
BIG = {
    "uniform": fm.samplers.uniform,
    "bernoulli": fm.samplers.bernoulli,
    "multinomial": fm.samplers.multinomial,
    "adaptive": fm.samplers.adaptive,
    "systematic": fm.samplers.systematic,
}


@cache
def million():
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 51, size=MANY)
    sizes[:3] = 100_000, 50_000, 40_000  # several bins, or nearly two, each
    return sizes, population(sizes)


@cache
def at_a_million(name):
    _, data = million()
    sampler, key = BIG[name](tools(SLOTS)), jax.random.key(6)
    # The data are an argument: as a constant they would be folded by the compiler.
    state = jax.jit(sampler.init)(see(data), key)
    sample = jax.jit(sampler.sample)
    keys = key, jax.random.key(8)
    return tuple(jax.device_get(sample(state, see(data), k)[0]) for k in keys)


@pytest.mark.parametrize("name", BIG)
def test_a_million_clients(name):
    """Unique live clients and weights of the right sum, from inside jit."""
    sizes, _ = million()
    cohort, other = at_a_million(name)
    live = cohort.ids[cohort.mask]
    assert len(np.unique(live)) == len(live) <= 1200
    assert live.min() >= 0 and live.max() < MANY
    assert len(live) > 900
    assert len(np.intersect1d(live, other.ids[other.mask])) < 20
    assert (cohort.weights[~cohort.mask] == 0).all()
    tolerance = 1e-5
    if name == "uniform":
        assert cohort.mask.all()
        p = sizes[live] / sizes.sum()
        np.testing.assert_allclose(cohort.weights, MANY * p / SLOTS, rtol=1e-5)
        tolerance = 0.1  # not normalised
    assert abs(cohort.weights.sum(dtype=np.float64) - 1) < tolerance
    # No preference for a region of ids: thousand draws in ten equal parts.
    parts = np.bincount(live * 10 // MANY, minlength=10)
    assert unlike(parts, np.ones(10)) > ALPHA


@pytest.mark.parametrize("name", ["adaptive", "systematic"])
def test_bins_are_exact_at_a_million_clients(name):
    """The client of bin m must own a part of [m D, (m + 1) D), in exact integers."""
    sizes, _ = million()
    for cohort in at_a_million(name):
        live = cohort.mask
        order = np.argsort(-sizes, kind="stable")
        rank = np.empty(MANY, int)
        rank[order] = np.arange(MANY)
        ends = np.cumsum(sizes[order]) * SLOTS  # C_i M, exact in int64
        D = int(sizes.sum())
        times = (cohort.weights[live] * SLOTS).round().astype(int)
        by_rank = np.argsort(rank[cohort.ids[live]])
        drawn = np.repeat(rank[cohort.ids[live]][by_rank], times[by_rank])
        assert len(drawn) == SLOTS  # client of bin m, m ascending
        low, high = ends[drawn] - sizes[order][drawn] * SLOTS, ends[drawn]
        bins = np.arange(SLOTS) * D
        assert (low < bins + D).all() and (high > bins).all()
        expected = SLOTS * sizes[:3] / D
        held = np.array([cohort.weights[live][cohort.ids[live] == i] for i in range(3)])
        assert (abs(held[:, 0] * SLOTS - expected) < 2).all()
