"""Exact moments of weights: against enumeration, the papers and the samplers."""

import itertools
from collections import defaultdict
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import fedjax_mos as fm
from tests.samplers.papers import algorithm_2, formulas, mnist_sizes
from tests.samplers.population import draw

samplers = fm.samplers
BACKWARDS = "in another order"
MASSES = ((1, 2, 2, 7, 3), (3, 3, 3, 3), (5, 1, 1, 1, 1, 1))


def outcomes(name, mass, M):
    """Every cohort as {client: weight} with its probability, in exact fractions."""
    N, D = len(mass), sum(mass)

    def drawn(draws):
        return {i: Fraction(draws.count(i), M) for i in set(draws)}

    def shared(chosen):
        total = sum(mass[i] for i in chosen)
        return {i: Fraction(mass[i], total) for i in chosen}

    subsets = list(itertools.combinations(range(N), M))
    same = Fraction(1, len(subsets))
    if name in ("multinomial", "adaptive", BACKWARDS):
        rows = [[Fraction(m, D) for m in mass]] * M
        rows = algorithm_2(mass, M) if name == "adaptive" else rows
        rows = algorithm_2(mass, M, range(N)[::-1]) if name == BACKWARDS else rows
        for draws in itertools.product(range(N), repeat=M):
            yield np.prod([rows[m][i] for m, i in enumerate(draws)]), drawn(draws)
    elif name == "systematic":
        owner = [
            i for i in sorted(range(N), key=lambda i: -mass[i]) for _ in range(mass[i])
        ]
        for v in range(D):
            yield Fraction(1, D), drawn([owner[(m * D + v) // M] for m in range(M)])
    elif name == "eq28":
        for chosen in subsets:
            yield same, {i: Fraction(N * mass[i], M * D) for i in chosen}
    elif name in ("mean", "share"):
        for chosen in subsets:
            yield same, shared(chosen) if name == "share" else drawn(chosen)
    elif name == "release":
        for chosen in itertools.permutations(range(N), M):
            left, chance = D, Fraction(1)
            for i in chosen:
                chance, left = chance * Fraction(mass[i], left), left - mass[i]
            yield chance, shared(chosen)
    elif name in ("active", "active_share"):
        rate, nobody = Fraction(M, N), Fraction(N - M, N) ** N
        for k in range(1, N + 1):
            chance = rate**k * (1 - rate) ** (N - k) / (1 - nobody)
            for chosen in itertools.combinations(range(N), k):
                alike = dict.fromkeys(chosen, Fraction(1, k))
                yield chance, alike if name == "active" else shared(chosen)
    else:
        yield Fraction(1), {i: Fraction(m, D) for i, m in enumerate(mass)}


SAMPLERS = {
    "eq28": (samplers.uniform, {}),
    "mean": (samplers.uniform, {"weights": "mean"}),
    "share": (samplers.uniform, {"weights": "share"}),
    "release": (samplers.uniform_release, {}),
    "multinomial": (samplers.multinomial, {}),
    "adaptive": (samplers.adaptive, {}),
    "systematic": (samplers.systematic, {}),
    "active": (samplers.bernoulli, {}),
    "active_share": (samplers.bernoulli, {"weights": "share"}),
    "everyone": (samplers.everyone, {}),
}


# Clusters are known from gradients only; here they are the ids from the last to 0.
MORE = {
    BACKWARDS: (
        samplers.clustered_adaptive,
        {"order": lambda mass: range(len(mass))[::-1], "warm": "discarded"},
    )
}


@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("name", [*SAMPLERS, *MORE])
def test_moments_are_those_of_all_cohorts(name, mass):
    """E[w_i] and Var w_i by counting every cohort that can be, in fractions."""
    make, options = MORE.get(name) or SAMPLERS[name]
    options = {n: v(mass) if callable(v) else v for n, v in options.items()}
    for M in (1, 2, 3):
        chance, first, second = (
            Fraction(0),
            defaultdict(Fraction),
            defaultdict(Fraction),
        )
        for probability, weights in outcomes(name, mass, M):
            chance += probability
            for i, w in weights.items():
                first[i] += probability * w
                second[i] += probability * w**2
        assert chance == 1
        found = samplers.moments(make, mass, M, **options)
        mean = np.array([float(first[i]) for i in range(len(mass))])
        variance = [float(second[i] - first[i] ** 2) for i in range(len(mass))]
        close = partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)
        close(found.mean, mean)
        close(found.variance, variance)
        close(found.second, [float(second[i]) for i in range(len(mass))])
        close(found.bias, mean - np.array(mass) / sum(mass))


@pytest.mark.parametrize("mass", MASSES)
def test_the_matrix_is_algorithm_2(mass):
    """p_im line by line from the paper; rows sum to 1, columns to M p_i."""
    for M in (1, 2, 3, 7):
        expected = np.array(algorithm_2(mass, M), float)
        np.testing.assert_allclose(samplers.draw_matrix(mass, M), expected, atol=1e-15)
    backwards = samplers.draw_matrix(mass, 3, order=np.arange(len(mass))[::-1])
    flipped = samplers.draw_matrix(mass[::-1], 3, order=np.arange(len(mass)))
    np.testing.assert_array_equal(backwards, flipped[:, ::-1])


def test_equation_25():
    """E[w^2] = (M p + M^2 p^2 - sum_m p_im^2) / M^2, as it is printed."""
    mass, M = np.array(MASSES[0]), 3
    p, matrix = mass / mass.sum(), samplers.draw_matrix(mass, M)
    printed = (M * p + M**2 * p**2 - (matrix**2).sum(axis=0)) / M**2
    found = samplers.moments(samplers.adaptive, mass, M)
    np.testing.assert_allclose(found.second, printed)


def test_sums_of_variances_on_the_mnist_partition():
    """The four sums of the paper's setting, from formulas written apart."""
    names = {"UCS": "eq28", "MD": "multinomial", "ACS": "adaptive"}
    sizes = mnist_sizes()
    for printed, value in formulas(sizes, 25).items():
        make, options = SAMPLERS[names.get(printed, "systematic")]
        found = samplers.moments(make, sizes, 25, **options)
        np.testing.assert_allclose(found.total, value, rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_have_these_moments(name):
    """20,000 cohorts of every sampler itself, within five standard errors."""
    mass, M = (1, 2, 3, 14, 4, 6), 3
    make, options = SAMPLERS[name]
    w = draw(partial(make, **options), M, mass)[1]
    found = samplers.moments(make, mass, M, **options)
    error = np.sqrt(found.variance / len(w))
    np.testing.assert_array_less(abs(w.mean(axis=0) - found.mean), 5 * error + 1e-6)
    squares = (w - found.mean) ** 2
    error = squares.std(axis=0) / np.sqrt(len(w))
    gap = abs(squares.mean(axis=0) - found.variance)
    np.testing.assert_array_less(gap, 5 * error + 1e-6)


@pytest.mark.parametrize("name", ["release", "active_share"])
def test_a_common_factor_of_all_masses_does_not_matter(name):
    """Tables that are as long as masses in single examples, where shares decide."""
    make, options = SAMPLERS[name]
    small, large = (
        samplers.moments(make, [k, 2 * k, 4 * k], 2, **options) for k in (1, 10**8)
    )
    np.testing.assert_array_equal(small.mean, large.mean)
    np.testing.assert_array_equal(small.variance, large.variance)


@pytest.mark.slow
def test_the_release_is_biased_as_simulated_before():
    """E[w_i]/p_i: 0.34 for the smallest tenth of the clients, 1.34 for the largest."""
    sizes = mnist_sizes()
    found = samplers.moments(samplers.uniform_release, sizes, 25)
    ratio = (found.mean / found.share)[np.argsort(sizes, kind="stable")]
    np.testing.assert_allclose(found.mean.sum(), 1, rtol=1e-9)
    np.testing.assert_allclose(ratio[:50].mean(), 0.34, atol=0.01)
    np.testing.assert_allclose(ratio[-50:].mean(), 1.37, atol=0.04)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: samplers.draw_matrix([1, 0], 1), "mass must be at least 1: client 1"),
        (lambda: samplers.draw_matrix([1, 2], 0), "cohort must be at least 1: got 0"),
        (lambda: samplers.draw_matrix([1, 2], 1, [0, 0]), "every client id, 0 to 1"),
        (
            lambda: samplers.moments(samplers.uniform, [1, 2], 3),
            "at most the number of clients, 2: got 3",
        ),
        (
            lambda: samplers.moments(samplers.clustered_adaptive, [1, 2], 1),
            "order must be given for clustered_adaptive",
        ),
        (
            lambda: samplers.moments(samplers.power_of_choice, [1, 2], 1),
            "moments are known, everyone.*got power_of_choice",
        ),
        (
            lambda: samplers.moments(
                samplers.uniform, [10**8, 10**8, 1], 2, weights="share"
            ),
            "coarser unit for exact sums over cohorts: got up to 100000000 units in 1",
        ),
        (
            lambda: samplers.moments(samplers.uniform_release, range(971, 1001), 12),
            "coarser unit",  # 96 tables at a time
        ),
    ],
)
def test_impossible_questions_are_refused(call, message):
    """In the words of the argument."""
    with pytest.raises(ValueError, match=message):
        call()
