"""ACS against its paper, systematic sampling, and both among a million clients."""

import importlib
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.samplers.adaptive import owners
from tests.samplers.papers import algorithm_2, formulas
from tests.samplers.population import KEYS, draw, near, population, see, tools
from tests.samplers.test_moments import start


def populations():
    """Five clients: random sizes, ties, giants; M = 1, in between, N and above."""
    rng = np.random.default_rng(3)
    sizes = [(4, 4, 4, 4, 4), (1, 1, 30, 1, 1), (2, 9, 1, 4, 6)]
    sizes += rng.integers(1, 9, size=(4, 5)).tolist()
    return [(tuple(s), M) for s in sizes for M in (1, 3, 5, 7)]


def test_adaptive_is_algorithm_2(monkeypatch):
    """The closed form must be the paper's matrix exactly, not approximately."""
    asked, drawn = [], []

    def randint(key, shape, low, high):
        asked.append((shape, low, high))
        return drawn[-1]

    monkeypatch.setattr(jax.random, "randint", randint)
    monkeypatch.setattr(  # unmerged, slot m is the draw of bin m
        importlib.import_module("fedjax_mos.samplers.adaptive"),
        "merge_duplicates",
        lambda ids, weights: fm.types.Cohort(ids, weights, None),
    )
    seen = set()
    for sizes, M in populations():
        state, sample = start(fm.samplers.adaptive(tools(M)), sizes)
        D, N = sum(sizes), len(sizes)
        assert D <= 40

        def clients(V, M=M, state=state, sample=sample):
            drawn.append(jnp.full(M, V))
            return sample(state, jax.random.key(0))[0].ids

        # Every value of a draw; up to 40, so that all cases share their programs.
        ids = np.asarray(jax.vmap(clients)(jnp.arange(40)))[:D]
        assert asked[-1] == ((M,), 0, D)
        counts = [np.bincount(ids[:, m], minlength=N).tolist() for m in range(M)]
        paper = algorithm_2(sizes, M)
        assert [[Fraction(c, D) for c in row] for row in counts] == paper, (sizes, M)
        assert all(sum(row) == 1 for row in paper)
        columns = [sum(row[i] for row in paper) for i in range(N)]
        assert columns == [Fraction(M * size, D) for size in sizes]
        seen |= {("ties", len(set(sizes)) < N), ("M = N", M == N), ("M = 1", M == 1)}
    assert len(seen) == 6  # each of them both held and did not


def chosen(sizes, draws, M):
    """Ids and counts, as a merged cohort reports them."""
    D = int(sizes.sum())
    order = np.argsort(-sizes, kind="stable")
    example = (np.arange(M, dtype=np.int64) * D + np.asarray(draws, np.int64)) // M
    ends = np.cumsum(sizes[order], dtype=np.int64)
    ids = order[np.searchsorted(ends, example, side="right")]
    return np.unique(ids, return_counts=True)


def test_adaptive_is_exact_at_a_million_clients():
    """Float positions are 8 % wrong there; integers must not be."""
    M, sizes = 1000, np.random.default_rng(0).integers(1, 4, size=1_000_000)
    data, key = population(sizes), jax.random.key(5)
    sampler = fm.samplers.adaptive(tools(M))
    state = jax.jit(sampler.init)(see(data), key)
    cohort = jax.jit(sampler.sample)(state, see(data), key)[0]
    live = np.asarray(cohort.mask)
    V = jax.random.randint(key, (M,), 0, int(sizes.sum()))
    ids, counts = chosen(sizes, V, M)
    np.testing.assert_array_equal(np.asarray(cohort.ids)[live], ids)
    np.testing.assert_allclose(np.asarray(cohort.weights)[live], counts / M, rtol=1e-6)


def test_adaptive_does_not_overflow_at_its_limits():
    """The largest cohort on the largest store: 32 unsigned bits must suffice."""
    M, sizes = 32768, np.full(65536, 2**15 - 1)
    sizes[0] += 2**31 - 1 - sizes.sum()
    data = fm.types.FederatedData(
        x=None,
        y=None,
        order=np.broadcast_to(np.int32(0), 2**31 - 1),  # only its length is used
        offset=None,
        size=jnp.asarray(sizes, jnp.int32),
        largest=int(sizes.max()),
    )
    sampler, key = fm.samplers.adaptive(tools(M)), jax.random.key(5)
    view = see(data)
    cohort = sampler.sample(sampler.init(view, key), view, key)[0]
    live = np.asarray(cohort.mask)
    ids, _ = chosen(sizes, jax.random.randint(key, (M,), 0, 2**31 - 1), M)
    np.testing.assert_array_equal(np.asarray(cohort.ids)[live], ids)


@pytest.mark.parametrize("total", [2**31 - 1, 31_415_927])
def test_owners_are_exact_integers(total):
    """floor((m D + V) / M) within 32 bits, for the extreme draws and random ones."""
    rng = np.random.default_rng(1)
    for M in (1, 7, 1000, 32_768):
        for V in (
            np.zeros(M, int),
            np.full(M, total - 1),
            rng.integers(0, total, size=M),
        ):
            got = owners(jnp.asarray(V, jnp.int32), jnp.asarray(total), M)
            expected = (np.arange(M) * total + V) // M
            np.testing.assert_array_equal(got, expected)


# ---- systematic ----------------------------------------------------------------------

# 30 examples, M = 3: clients on the border of two bins; one of 1.4 bins; of 1 exactly.
BORDER, LARGE, WHOLE = (7, 8, 6, 5, 4), (1, 2, 3, 14, 4, 6), (10, 10, 4, 6)


@pytest.mark.parametrize("sizes", [BORDER, LARGE, WHOLE])
def test_systematic_moments(sizes):
    """E w_i = p_i and Var w_i = f (1 - f) / M^2, f the fraction of M p_i (5 s.e.)."""
    M, p = 3, np.array(sizes) / sum(sizes)
    cohort, w = draw(fm.samplers.systematic, M, sizes)
    f = np.array([(M * s) % sum(sizes) / sum(sizes) for s in sizes])
    variance = f * (1 - f) / M**2
    near(w.mean(axis=0), p, np.sqrt(variance / KEYS))
    squares = (w - p) ** 2
    near(squares.mean(axis=0), variance, squares.std(axis=0) / np.sqrt(KEYS))
    # A weight is one of the two multiples of 1/M next to p_i.
    times = (w * M).round().astype(int)
    np.testing.assert_allclose(w * M, times, atol=1e-5)
    low = np.floor(M * p + 1e-9)
    assert ((times == low) | ((times == low + 1) & (f > 0))).all()
    np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-6)
    acs = formulas(np.array(sizes), M)["ACS"]
    assert acs > 1.2 * variance.sum() or sizes != BORDER  # one draw, not three
