"""The other samplers: exact moments, pools, and a million clients."""

import itertools
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fedjax_mos as fm
from fedjax_mos.samplers.adaptive import owners
from fedjax_mos.samplers.bernoulli import _log_binomial
from fedjax_mos.samplers.cohort import subset
from fedjax_mos.samplers.uniform import weighted_subset

KEYS = 20_000
ALPHA = 1e-4  # level of every chi-square test; seeds are fixed


def population(sizes, x=None):
    """Clients of given sizes; most samplers look at no example."""
    sizes = np.asarray(sizes)
    order = np.arange(1 if x is None else sizes.sum())
    return fm.types.FederatedData(
        x=jnp.zeros((1, 1)) if x is None else jnp.asarray(x, jnp.float32),
        y=jnp.zeros(len(order), jnp.int32),
        order=jnp.asarray(order, jnp.int32),
        offset=jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
        size=jnp.asarray(sizes, jnp.int32),
        largest=int(sizes.max()) if x is not None else 0,
    )


def draw(make, cohort, sizes, keys=KEYS):
    """Many cohorts as NumPy, and the weight of every client in them [keys, N]."""
    drawn = jax.device_get(_draw(make, cohort, keys)(population(sizes)))
    return drawn, weights_of(drawn, len(sizes))


@cache
def _draw(make, cohort, keys):
    sampler, root = make(cohort), jax.random.key(7)

    @jax.jit
    def many(data):
        state = sampler.init(data, root)
        sample = jax.vmap(lambda key: sampler.sample(state, key, (), data)[0])
        return sample(jax.random.split(root, keys))

    return many


def weights_of(cohort, clients):
    per_client = np.zeros((len(cohort.ids), clients))
    rows = np.arange(len(cohort.ids))[:, None]
    np.add.at(per_client, (rows, cohort.ids), np.where(cohort.mask, cohort.weights, 0))
    return per_client


def unlike(counts, probabilities):
    """The p-value of counts under a distribution, cells below 5 pooled."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float)
    expected = expected * counts.sum() / expected.sum()
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    small = max(int((expected.cumsum() < 5).sum()), 0)
    counts = np.concatenate([[counts[: small + 1].sum()], counts[small + 1 :]])
    expected = np.concatenate([[expected[: small + 1].sum()], expected[small + 1 :]])
    return stats.chisquare(counts, expected).pvalue


def near(mean, expected, error):
    """Within five standard errors."""
    np.testing.assert_array_less(abs(mean - expected), 5 * error + 1e-6)


# ---- systematic ----------------------------------------------------------------------

# 30 examples, M = 3: clients on the border of two bins; one of 1.4 bins; of 1 exactly.
BORDER, LARGE, WHOLE = (7, 8, 6, 5, 4), (1, 2, 3, 14, 4, 6), (10, 10, 4, 6)


@pytest.mark.parametrize("sizes", [BORDER, LARGE, WHOLE])
def test_systematic_moments(sizes):
    """E w_i = p_i and Var w_i = f (1 - f) / M^2, f the fraction of M p_i (5 s.e.)."""
    M, p = 3, np.array(sizes) / sum(sizes)
    cohort, w = draw(fm.systematic, M, sizes)
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


# ---- bernoulli -----------------------------------------------------------------------

N, M = 20, 3


@cache
def active(weights):
    return draw(partial(fm.bernoulli, weights=weights), M, 1 + np.arange(N) % 5)


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
    cohort, w = draw(fm.bernoulli, 5, (1, 2, 3, 4, 5), keys=3)
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


# ---- uniform -------------------------------------------------------------------------


def successive(p, cohort, draws, seed):
    """The FedMoS release: draw by p without replacement, normalise N p / M."""
    rng, w = np.random.default_rng(seed), np.zeros((draws, len(p)))
    for row in w:
        chosen = rng.choice(len(p), cohort, replace=False, p=p)
        row[chosen] = p[chosen] / p[chosen].sum()
    return w


def test_uniform_release_is_biased_as_the_release():
    """E w_i / p_i against NumPy (5 s.e.); unbiased would be another method."""
    sizes, cohort = np.array([1, 2, 3, 14, 4, 6]), 3
    p = sizes / sizes.sum()
    drawn, ours = draw(fm.uniform_release, cohort, sizes)
    theirs = successive(p, cohort, KEYS // 2, seed=1)
    error = np.sqrt(ours.var(axis=0) / KEYS + theirs.var(axis=0) / (KEYS // 2))
    near(ours.mean(axis=0) / p, theirs.mean(axis=0) / p, error / p)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-5)
    assert drawn.mask.all()
    ratio = ours.mean(axis=0) / p
    assert ratio[0] < 0.5 and ratio[3] > 1.15


def test_uniform_release_on_the_mnist_partition():
    """ALGORITHMS 2.6: .34 for the smallest decile, 1.39 for the largest (.06)."""
    sizes = mnist_sizes()
    p = sizes / sizes.sum()
    _, w = draw(fm.uniform_release, 25, sizes, keys=4000)
    ratio = w.mean(axis=0) / p
    order = np.argsort(sizes)
    deciles = ratio[order[:50]].mean(), ratio[order[-50:]].mean()
    np.testing.assert_allclose(deciles, (0.34, 1.39), atol=0.06)


def shuffled(clients, size, keys=KEYS):
    choose = jax.jit(jax.vmap(lambda key: subset(key, clients, size)))
    return np.asarray(choose(jax.random.split(jax.random.key(11), keys)))


def test_subset_by_floyd_is_uniform_in_order():
    """All ordered choices of 2 and of 3 from 5 equally likely."""
    for size in (2, 3):
        assert size * size <= 32 * 5  # this branch
        got = [tuple(row) for row in shuffled(5, size).tolist()]
        choices = list(itertools.permutations(range(5), size))
        counts = [got.count(choice) for choice in choices]
        assert sum(counts) == KEYS  # nothing else, so all distinct
        assert unlike(counts, np.ones(len(choices))) > ALPHA


def test_subset_by_floyd_is_exact(monkeypatch):
    """Over all outcomes of its draws each set occurs equally often: 4 * 5 / C(5, 2)."""
    drawn, bounds = [], []

    def randint(key, shape, low, high):
        bounds.append(np.asarray(high) - low)
        return drawn[-1]

    monkeypatch.setattr(jax.random, "randint", randint)
    outcomes = jnp.array(list(itertools.product(range(4), range(5))))

    def choose(outcome):
        drawn.append(outcome)
        return subset(jax.random.key(0), 5, 2)

    got = np.asarray(jax.vmap(choose)(outcomes))
    assert bounds[0].tolist() == [4, 5]
    sets = [frozenset(row) for row in got.tolist()]
    counts = {chosen: sets.count(chosen) for chosen in sets}
    assert len(counts) == 10 and set(counts.values()) == {2}


def test_subset_by_permutation_is_uniform():
    """33 of 34: each client equally often left out, first and last."""
    clients, size = 34, 33
    assert size * size > 32 * clients  # the other branch
    got = shuffled(clients, size)
    assert (np.sort(got, axis=1)[:, 1:] != np.sort(got, axis=1)[:, :-1]).all()
    missing = clients * (clients - 1) // 2 - got.sum(axis=1)
    for column in (missing, got[:, 0], got[:, -1]):
        counts = np.bincount(column, minlength=clients)
        assert unlike(counts, np.ones(clients)) > ALPHA


# ---- power of choice -----------------------------------------------------------------


def test_power_of_choice_picks_the_worst_candidates():
    """Of the candidates those of largest local loss, each with weight 1/M."""
    sizes, cohort, candidates = np.array([3, 1, 4, 2, 5, 3, 2]), 2, 4
    level = np.array([0.3, 0.9, 0.1, 0.7, 0.5, 0.2, 0.8])
    # A client's mean must count: outliers within a client cancel.
    x = np.repeat(level, sizes)
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        if size > 1:
            x[end - 1] += 5
            x[end - size] -= 5
    data = population(sizes, x[:, None])

    def loss(params, batch, key):
        return params * fm.masked_mean(batch.x[:, 0], batch.mask)

    sampler = fm.power_of_choice(cohort, loss, candidates, micro_batch=2)
    everyone = fm.power_of_choice(cohort, loss, candidates=20, micro_batch=2)

    @jax.jit
    @jax.vmap
    def chosen(key):
        drawn = weighted_subset(jax.random.split(key)[0], data.size, candidates)
        some, _ = sampler.sample((), key, 1.0, data)
        return drawn, some, everyone.sample((), key, -1.0, data)[0]

    keys = jax.random.split(jax.random.key(2), 500)
    drawn, some, every = jax.device_get(chosen(keys))
    rows = np.arange(500)[:, None]
    worst = drawn[rows, np.argsort(-level[drawn], axis=1)[:, :cohort]]
    np.testing.assert_array_equal(some.ids, worst)
    assert not np.isin(some.ids, np.argsort(level)[: candidates - cohort]).any()
    assert len(np.unique(some.ids)) == 5
    # With all as candidates, and the sign of the loss turned, always the same two.
    np.testing.assert_array_equal(every.ids, np.tile([2, 5], (500, 1)))
    assert some.mask.all() and every.mask.all()
    np.testing.assert_allclose(some.weights, 1 / cohort)


# ---- pools ---------------------------------------------------------------------------

POOL, EVERY = 5, 4
SIZES = np.array([3, 10, 7, 12, 6, 5, 9, 2, 4, 8, 1, 11])
INNER = {
    "adaptive": lambda: fm.adaptive(3),
    "multinomial": lambda: fm.multinomial(3),
    "uniform": lambda: fm.uniform(3),
    "share": lambda: fm.uniform(3, "share"),
    "bernoulli": lambda: fm.bernoulli(3),
}


@cache
def pooled(name):
    """Twelve rounds of pools, and many cohorts from each of two pools."""
    sampler, data = fm.pools(INNER[name](), POOL, EVERY), population(SIZES)
    keys = jax.random.split(jax.random.key(3), 12)
    many = jax.random.split(jax.random.key(4), KEYS // 2)

    @jax.jit
    def go(start):
        def step(state, key):
            cohort, state = sampler.sample(state, key, (), data)
            return state, (cohort, state.present, state)

        _, (cohorts, present, states) = jax.lax.scan(step, start, keys)

        def within(t):
            # After round t the pool stays for another round.
            state = jax.tree.map(lambda leaf: leaf[t], states)
            return jax.vmap(lambda key: sampler.sample(state, key, (), data)[0])(many)

        return cohorts, present, jax.vmap(within)(jnp.array([0, EVERY + 1]))

    start = sampler.init(data, jax.random.key(9))
    cohorts, present, within = jax.device_get(go(start))
    np.testing.assert_array_equal(present[0], start.present)  # the first stage's pool
    return cohorts, present, [type(within)(*(x[i] for x in within)) for i in (0, 1)]


@pytest.mark.parametrize("name", INNER)
def test_chosen_clients_belong_to_the_pool(name):
    """A client outside the present pool is away and cannot take part."""
    cohorts, present, within = pooled(name)
    for t in range(12):
        live = cohorts.ids[t][cohorts.mask[t]]
        assert len(set(live)) == len(live) > 0
        assert set(live) <= set(present[t])
    for cohort, pool in zip(within, (present[0], present[EVERY + 1]), strict=True):
        assert set(np.unique(cohort.ids[cohort.mask])) == set(pool)


def test_pools_last_for_so_many_rounds():
    """Constant within a stage, redrawn after it, always of distinct clients."""
    _, present, _ = pooled("uniform")
    stages = present.reshape(3, EVERY, POOL)
    assert (stages == stages[:, :1]).all()
    sets = [frozenset(stage[0]) for stage in stages]
    assert all(len(s) == POOL for s in sets) and len(set(sets)) == 3


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("name", INNER)
def test_weights_within_a_pool(name, stage):
    """E w_i = p_i / (mass of the pool), also after a change of pools (5 s.e.)."""
    _, present, within = pooled(name)
    pool = present[stage * (EVERY + 1)]
    share = np.zeros(len(SIZES))
    share[pool] = SIZES[pool] / SIZES[pool].sum()
    w = weights_of(within[stage], len(SIZES))
    if name == "bernoulli":  # a plain mean over the active: 1 / pool each
        share[pool] = 1 / POOL
    if name == "share":  # biased, but by shares within the chosen
        mass = SIZES[within[stage].ids]
        expected = mass / mass.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(within[stage].weights, expected, rtol=1e-5)
    else:
        near(w.mean(axis=0), share, w.std(axis=0) / np.sqrt(len(w)))
    if name == "uniform":
        expected = POOL * share[within[stage].ids] / 3
        np.testing.assert_allclose(within[stage].weights, expected, rtol=1e-5)
    else:
        np.testing.assert_allclose(w.sum(axis=1), 1, rtol=1e-5)


def test_impossible_pools_are_refused():
    """Errors must come when the state is made, not from inside a program."""
    data, key = population(SIZES), jax.random.key(0)
    with pytest.raises(ValueError, match="every must be at least 1: got 0"):
        fm.pools(fm.adaptive(3), POOL, 0)
    with pytest.raises(ValueError, match="at most the number of clients, 12: got 13"):
        fm.pools(fm.adaptive(3), 13, 2).init(data, key)
    with pytest.raises(ValueError, match="at most the number of clients, 5: got 6"):
        fm.pools(fm.uniform(6), POOL, 2).init(data, key)
    with pytest.raises(ValueError, match="candidates must be at least cohort, 3"):
        fm.power_of_choice(3, None, candidates=2)


# ---- the table of the issue ----------------------------------------------------------

TABLE = {
    "UCS": fm.uniform,
    "MD": fm.multinomial,
    "ACS": fm.adaptive,
    "systematic": fm.systematic,
}


@cache
def mnist_sizes():
    """Sizes of the FedMoS MNIST partition: 500 clients of 10 to 50 examples."""
    labels = np.arange(60_000) % 10
    return fm.partition.classes(
        labels, 500, seed=0, classes_per_client=2, smallest=10, largest=50
    ).size


def formulas(sizes, M):
    """sum_i Var w_i of ALGORITHMS 11."""
    sizes = np.sort(sizes)[::-1].astype(np.int64)
    D, N = int(sizes.sum()), len(sizes)
    p = sizes / D
    # Row m of the matrix: overlaps of [C_{i-1} M, C_i M) with [m D, (m + 1) D).
    ends = np.cumsum(sizes) * M
    bins = np.arange(M)[:, None] * D
    overlap = np.minimum(ends, bins + D) - np.maximum(ends - sizes * M, bins)
    matrix = np.maximum(overlap, 0) / D
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(matrix.sum(axis=0), M * p)
    f = sizes * M % D / D
    return {
        "UCS": (N / M * p**2 - p**2).sum(),
        "MD": (p * (1 - p) / M).sum(),
        "ACS": (p / M - (matrix**2).sum(axis=0) / M**2).sum(),
        "systematic": (f * (1 - f) / M**2).sum(),
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


# ---- a million clients ---------------------------------------------------------------

MANY, SLOTS = 1_000_000, 1000


@cache
def million():
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 51, size=MANY)
    sizes[:3] = 100_000, 50_000, 40_000  # several bins, or nearly two, each
    return sizes, population(sizes)


BIG = {
    "uniform": fm.uniform,
    "bernoulli": fm.bernoulli,
    "multinomial": fm.multinomial,
    "adaptive": fm.adaptive,
    "systematic": fm.systematic,
}


@cache
def at_a_million(name):
    _, data = million()
    sampler, key = BIG[name](SLOTS), jax.random.key(6)
    # The data are an argument: as a constant they would be folded by the compiler.
    state = jax.jit(sampler.init)(data, key)
    sample = jax.jit(lambda data, state, key: sampler.sample(state, key, (), data)[0])
    cohort = sample(data, state, key)
    return jax.device_get(cohort), jax.device_get(
        sample(data, state, jax.random.key(8))
    )


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


def test_restricted_data_keep_their_store():
    """Pools move ids, not examples: power of choice must see the right clients."""
    sizes = np.array([2, 2, 2, 2, 2, 2])
    level = np.array([0.1, 0.6, 0.3, 0.5, 0.2, 0.4])
    data = population(sizes, np.repeat(level, sizes)[:, None])

    def loss(params, batch, key):
        return fm.masked_mean(batch.x[:, 0], batch.mask)

    sampler = fm.pools(fm.power_of_choice(1, loss, candidates=3), 3, 1)
    state = sampler.init(data, jax.random.key(0))
    step = jax.jit(lambda state, key: sampler.sample(state, key, (), data))
    for t in range(6):
        cohort, state = step(state, jax.random.key(t))
        present = np.asarray(state.present)
        assert int(cohort.ids[0]) == present[level[present].argmax()]
