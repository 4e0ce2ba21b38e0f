"""Samplers: fixed slots, exact moments, and the variances of the papers.

That a draw is pure and the same under jit, scan and vmap is a contract of all of them:
tests/contracts/test_samplers.py.
"""

from functools import cache, partial

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from tests.samplers.papers import algorithm_2, formulas, mnist_sizes
from tests.samplers.population import draw, near, population, see, tools

pytestmark = pytest.mark.thorough

# Client 3 owns 14 of 30 examples: with three slots its expected count is 1.4.
SIZES, COHORT, KEYS = (1, 2, 3, 14, 4, 6), 3, 20_000
SAMPLERS = {
    "eq28": fm.samplers.uniform,
    "mean": partial(fm.samplers.uniform, weights="mean"),
    "share": partial(fm.samplers.uniform, weights="share"),
    "multinomial": fm.samplers.multinomial,
    "adaptive": fm.samplers.adaptive,
}
UNBIASED = ("eq28", "multinomial", "adaptive")
samplers = pytest.mark.parametrize("name", SAMPLERS)


def start(sampler, sizes=SIZES):
    """A state, and `(state, key) -> (cohort, state)`."""
    view = see(population(sizes))
    state = sampler.init(view, jax.random.key(0))
    return state, lambda state, key: sampler.sample(state, view, key)


@cache
def draws(name):
    """KEYS cohorts at once, and the weight of every client in them [KEYS, N]."""
    state, sample = start(SAMPLERS[name](tools(COHORT)))
    keys = jax.random.split(jax.random.key(7), KEYS)
    cohort = jax.jit(jax.vmap(lambda key: sample(state, key)[0]))(keys)
    ids, weights, mask = (np.asarray(leaf) for leaf in cohort[:3])
    per_client = np.zeros((KEYS, len(SIZES)))
    np.add.at(per_client, (np.arange(KEYS)[:, None], ids), weights * mask)
    return ids, weights, mask, per_client


@samplers
def test_a_cohort_has_fixed_slots_and_unique_live_clients(name):
    """A live client in two slots would train twice and overwrite its own state."""
    ids, weights, mask, _ = draws(name)
    assert ids.shape == weights.shape == mask.shape == (KEYS, COHORT)
    assert np.issubdtype(ids.dtype, np.integer) and mask.dtype == bool
    assert ids.min() >= 0 and ids.max() < len(SIZES)
    live = np.sort(np.where(mask, ids, -1 - np.arange(COHORT)), axis=1)
    assert (live[:, 1:] != live[:, :-1]).all()
    assert mask.any(axis=1).all()
    assert (weights[~mask] == 0).all() and (weights[mask] > 0).all()
    with_dead = name in ("multinomial", "adaptive")
    assert (~mask).any() == with_dead
    assert {i for i in np.unique(ids[mask])} == set(range(len(SIZES)))


@pytest.mark.parametrize("name", UNBIASED)
def test_expected_weights_are_the_shares(name):
    """E[w_i] = p_i is what makes the aggregate unbiased (five standard errors)."""
    p = np.array(SIZES) / sum(SIZES)
    assert COHORT * p.max() > 1
    mean = draws(name)[3].mean(axis=0)
    error = np.sqrt(variance(name) / KEYS)
    np.testing.assert_array_less(abs(mean - p), 5 * error + 1e-6)


@pytest.mark.parametrize("name", UNBIASED)
def test_variances_are_those_of_the_theory(name):
    """ACS without its strata, or MD without independence, has right means only."""
    w = draws(name)[3]
    centred = (w - w.mean(axis=0)) ** 2
    error = centred.std(axis=0) / np.sqrt(KEYS)
    gap = abs(centred.mean(axis=0) - variance(name))
    np.testing.assert_array_less(gap, 5 * error + 1e-6)


def variance(name):
    """Var w_i, from ALGORITHMS section 11 (FedMoS, Section IV)."""
    p, M, N = np.array(SIZES) / sum(SIZES), COHORT, len(SIZES)
    matrix = np.array(algorithm_2(SIZES, COHORT), float)
    return {
        "eq28": N / M * p**2 - p**2,
        "multinomial": p * (1 - p) / M,
        "adaptive": p / M - (matrix**2).sum(axis=0) / M**2,
    }[name]


def test_adaptive_never_varies_more_than_multinomial():
    """The reason for ACS; strictly less wherever a client's bins are not all alike."""
    assert (variance("adaptive") < variance("multinomial")).all()
    ours, theirs = (draws(name)[3].var(axis=0) for name in ("adaptive", "multinomial"))
    assert ours.sum() < 0.9 * theirs.sum()


def test_uniform_weights():
    """Each rule must be the documented one, on the same cohorts."""
    ids, weights, _, _ = draws("eq28")
    p = np.array(SIZES) / sum(SIZES)
    np.testing.assert_allclose(weights, len(SIZES) * p[ids] / COHORT, rtol=1e-6)
    assert abs(weights.sum(axis=1) - 1).max() > 0.5  # unbiased, not normalised
    same, weights, _, _ = draws("share")
    np.testing.assert_array_equal(same, ids)
    expected = p[ids] / p[ids].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(weights, expected, rtol=1e-5)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    same, weights, _, _ = draws("mean")
    np.testing.assert_array_equal(same, ids)
    np.testing.assert_allclose(weights, 1 / COHORT, rtol=1e-7)


@pytest.mark.parametrize("name", ["multinomial", "adaptive"])
def test_draws_weigh_one_each_and_are_merged(name):
    """A client drawn twice holds one live slot of weight 2 / M; weights sum to 1."""
    _, weights, mask, per_client = draws(name)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    times = per_client * COHORT
    np.testing.assert_allclose(times, times.round(), atol=1e-5)
    twice = times[:, 3].round() == 2
    assert 0.1 < twice.mean() < 0.9
    assert (mask[twice].sum(axis=1) <= COHORT - 1).all()
    np.testing.assert_array_equal(mask.sum(axis=1), (times > 0.5).sum(axis=1))


@samplers
def test_one_client_alone(name):
    """N = M = 1 must give that client weight 1."""
    state, sample = start(SAMPLERS[name](tools(1)), sizes=(4,))
    cohort = sample(state, jax.random.key(0))[0]
    assert cohort.ids.tolist() == [0] and cohort.mask.tolist() == [True]
    np.testing.assert_allclose(cohort.weights, [1.0])


@samplers
def test_an_empty_cohort_is_refused(name):
    """A cohort of no client would fail deep inside the round."""
    with pytest.raises(ValueError, match="cohort must be at least 1: got 0"):
        SAMPLERS[name](tools(0))


def test_impossible_requests_are_refused():
    """Errors must name the argument, its value and its range."""
    view = see(population(SIZES))
    with pytest.raises(ValueError, match="at most the number of clients, 6: got 7"):
        fm.samplers.uniform(tools(7)).init(view, jax.random.key(0))
    with pytest.raises(ValueError, match="weights must.*eq28.*mean.*share.*got 'sum'"):
        fm.samplers.uniform(tools(3), weights="sum")
    with pytest.raises(ValueError, match="at most 32768 for ACS: got 32769"):
        fm.samplers.adaptive(tools(32769))


# ---- on the partitions of FedMoS ----------------------------------------------------

TABLE = {
    "UCS": fm.samplers.uniform,
    "MD": fm.samplers.multinomial,
    "ACS": fm.samplers.adaptive,
    "systematic": fm.samplers.systematic,
}


def simulated(sizes, M, keys=4000):
    """(mean, standard error) of sum_i (w_i - p_i)^2."""
    p, result = sizes / sizes.sum(), {}
    for name, make in TABLE.items():
        squares = ((draw(make, M, sizes, keys)[1] - p) ** 2).sum(axis=1)
        result[name] = squares.mean(), squares.std() / np.sqrt(keys)
    return result


def test_variances_on_the_mnist_partition():
    """UCS >= MD >= ACS >= systematic there; with equal sizes UCS is below MD."""
    for title, sizes in (
        ("FedMoS MNIST partition", mnist_sizes()),
        ("equal sizes", np.full(500, 30)),
    ):
        exact, sampled = formulas(sizes, 25), simulated(sizes, 25)
        print(f"\nsum of Var w_i, N = 500, M = 25, {title}")
        for name, value in exact.items():
            mean, error = sampled[name]
            print(f"{name:>10} {value:.5f}   simulated {mean:.5f} +- {error:.5f}")
            near(mean, value, error)
        if title == "equal sizes":
            assert exact["UCS"] < exact["MD"]
            assert sampled["UCS"][0] < sampled["MD"][0]
            assert sampled["UCS"][1] < 1e-5  # always the same sum
        else:
            assert sizes.min() >= 10 and sizes.max() <= 50
            values = list(exact.values())
            assert values == sorted(values, reverse=True)
            np.testing.assert_allclose(
                values, [0.0438, 0.0399, 0.0377, 0.0377], rtol=0.03
            )
            order = [sampled[name][0] for name in ("UCS", "MD", "ACS")]
            assert order == sorted(order, reverse=True)
