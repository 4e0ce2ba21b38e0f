"""Samplers: one contract for all, exact moments, and ACS against its paper."""

import importlib
from fractions import Fraction
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.samplers.cohort import merge_duplicates

# Client 3 owns 14 of 30 examples: with three slots its expected count is 1.4.
SIZES, COHORT, KEYS = (1, 2, 3, 14, 4, 6), 3, 20_000
SAMPLERS = {
    "eq28": lambda cohort: fm.uniform(cohort),
    "mean": lambda cohort: fm.uniform(cohort, "mean"),
    "share": lambda cohort: fm.uniform(cohort, "share"),
    "multinomial": fm.multinomial,
    "adaptive": fm.adaptive,
}
UNBIASED = ("eq28", "multinomial", "adaptive")
samplers = pytest.mark.parametrize("name", SAMPLERS)


def population(sizes):
    """Clients of given sizes; a sampler looks at no example."""
    sizes = np.asarray(sizes)
    return fm.types.FederatedData(
        x=jnp.zeros((1, 1)),
        y=jnp.zeros(1, jnp.int32),
        order=jnp.zeros(sizes.sum(), jnp.int32),
        offset=jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
        size=jnp.asarray(sizes, jnp.int32),
        largest=int(sizes.max()),
    )


def start(sampler, sizes=SIZES):
    """`key -> (cohort, state)`, and the data."""
    data = population(sizes)
    state = sampler.init(data, jax.random.key(0))
    return state, lambda state, key: sampler.sample(state, key, (), data)


@cache
def draws(name):
    """KEYS cohorts at once, and the weight of every client in them [KEYS, N]."""
    state, sample = start(SAMPLERS[name](COHORT))
    keys = jax.random.split(jax.random.key(7), KEYS)
    cohort = jax.jit(jax.vmap(lambda key: sample(state, key)[0]))(keys)
    ids, weights, mask = (np.asarray(leaf) for leaf in cohort)
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


@samplers
def test_sampling_survives_jit_scan_and_vmap(name):
    """A round is jitted, a run scanned, a sweep vmapped: all must choose alike."""
    state, sample = start(SAMPLERS[name](COHORT))
    keys = jax.random.split(jax.random.key(1), 5)

    def body(state, key):
        cohort, state = sample(state, key)
        return state, cohort

    last, scanned = jax.lax.scan(body, state, keys)
    chex.assert_trees_all_equal_shapes_and_dtypes(last, state)
    mapped = jax.vmap(lambda key: sample(state, key)[0])(keys)
    jitted = jax.jit(sample)
    singles = [jitted(state, key)[0] for key in keys]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *singles)
    for other in (mapped, stacked):
        np.testing.assert_array_equal(scanned.ids, other.ids)
        np.testing.assert_array_equal(scanned.mask, other.mask)
        np.testing.assert_allclose(scanned.weights, other.weights, rtol=1e-6)
    assert len({tuple(row) for row in np.asarray(scanned.ids)}) > 1


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


def test_merge_duplicates():
    """Merging is what makes `a live client has one slot` true."""
    cohort = merge_duplicates(jnp.array([4, 2, 4, 0, 4]), jnp.arange(1.0, 6.0))
    live = np.asarray(cohort.mask)
    got = dict(
        zip(cohort.ids[live].tolist(), cohort.weights[live].tolist(), strict=True)
    )
    assert got == {0: 4.0, 2: 2.0, 4: 9.0}
    assert live.sum() == 3 and (np.asarray(cohort.weights)[~live] == 0).all()


def algorithm_2(sizes, M):
    """FedMoS, Algorithm 2, line by line, in exact fractions: p[m][i]."""
    clients = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    mass = [Fraction(M * size, sum(sizes)) for size in sizes]  # M p_i
    P = [Fraction(0)] * len(sizes)
    matrix = []
    for _ in range(M):
        total, p = Fraction(0), [Fraction(0)] * len(sizes)
        for i in clients:
            if P[i] < mass[i]:
                p[i] = min(mass[i] - P[i], Fraction(1))
                before, total = total, total + p[i]
                if total <= 1:
                    P[i] += p[i]
                else:
                    p[i] = 1 - before
                    P[i] += p[i]
                    break
        matrix.append(p)
    return matrix


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
        state, sample = start(fm.adaptive(M), sizes)
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


def owners(sizes, draws, M):
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
    data, sampler, key = population(sizes), fm.adaptive(M), jax.random.key(5)
    state = jax.jit(sampler.init)(data, key)
    cohort = jax.jit(lambda s, k, d: sampler.sample(s, k, (), d)[0])(state, key, data)
    live = np.asarray(cohort.mask)
    V = jax.random.randint(key, (M,), 0, int(sizes.sum()))
    ids, counts = owners(sizes, V, M)
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
    sampler, key = fm.adaptive(M), jax.random.key(5)
    cohort = sampler.sample(sampler.init(data, key), key, (), data)[0]
    live = np.asarray(cohort.mask)
    ids, _ = owners(sizes, jax.random.randint(key, (M,), 0, 2**31 - 1), M)
    np.testing.assert_array_equal(np.asarray(cohort.ids)[live], ids)


@samplers
def test_one_client_alone(name):
    """N = M = 1 must give that client weight 1."""
    state, sample = start(SAMPLERS[name](1), sizes=(4,))
    cohort = sample(state, jax.random.key(0))[0]
    assert cohort.ids.tolist() == [0] and cohort.mask.tolist() == [True]
    np.testing.assert_allclose(cohort.weights, [1.0])


@samplers
def test_an_empty_cohort_is_refused(name):
    """A cohort of no client would fail deep inside the round."""
    with pytest.raises(ValueError, match="cohort must be at least 1: got 0"):
        SAMPLERS[name](0)


def test_impossible_requests_are_refused():
    """Errors must name the argument, its value and its range."""
    data = population(SIZES)
    with pytest.raises(ValueError, match="at most the number of clients, 6: got 7"):
        fm.uniform(7).init(data, jax.random.key(0))
    with pytest.raises(ValueError, match="weights must.*eq28.*mean.*share.*got 'sum'"):
        fm.uniform(3, "sum")
    with pytest.raises(ValueError, match="at most 32768 for ACS: got 32769"):
        fm.adaptive(32769)
