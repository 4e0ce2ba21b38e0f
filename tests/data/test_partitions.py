"""Partitions: one contract for all of them, then each published rule."""

import functools
import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fedjax_mos.data import partitions, quota

LABELS = np.random.default_rng(0).permutation(
    np.repeat(np.arange(5), range(60, 10, -10))
)

# name -> (rule with small options, whether it deals every example)
RULES = {
    "iid": (partitions.iid, True),
    "dirichlet_balanced": (
        functools.partial(partitions.dirichlet_balanced, alpha=0.3),
        True,
    ),
    "dirichlet_visiting": (
        functools.partial(partitions.dirichlet_visiting, alpha=0.3),
        True,
    ),
    "dirichlet": (functools.partial(partitions.dirichlet, alpha=0.3), True),
    "quantity": (functools.partial(partitions.quantity, alpha=0.3), True),
    "shards": (functools.partial(partitions.shards, shards_per_client=1), True),
    "classes": (
        functools.partial(
            partitions.classes, classes_per_client=2, smallest=2, largest=3
        ),
        False,
    ),
    "ladder": (
        functools.partial(
            partitions.ladder, classes_per_client=2, sizes=(3, 2), fractions=(0.5, 0.5)
        ),
        False,
    ),
}
ANY_LABELS = ("iid", "quantity")  # of which only the number counts
EQUAL = ("iid", "dirichlet_balanced", "dirichlet_visiting", "shards")


@pytest.fixture(params=RULES, name="name")
def _name(request):
    return request.param


def owned(part):
    """A list of positions per client."""
    return np.split(part.order, np.cumsum(part.size)[:-1])


def assert_valid(part, n, clients, covers):
    assert part.size.shape == (clients,)
    assert part.size.min() >= 1
    assert part.size.sum() == len(part.order)
    assert len(np.unique(part.order)) == len(part.order)
    assert part.order.min() >= 0
    assert part.order.max() < n
    assert len(part.order) == n or not covers


# ---- the contract --------------------------------------------------------------------


def test_deterministic_and_pure(name):
    """A run could not be repeated, or a partition would spoil the labels."""
    rule, _ = RULES[name]
    labels = LABELS.copy()
    first, second = rule(labels, 20, seed=3), rule(labels, 20, seed=3)
    np.testing.assert_array_equal(first.order, second.order)
    np.testing.assert_array_equal(first.size, second.size)
    np.testing.assert_array_equal(labels, LABELS)


def test_differs_between_seeds(name):
    """The seed would be ignored: repeated runs would all share one partitions."""
    rule, _ = RULES[name]
    tables = [
        [sorted(rows) for rows in owned(rule(LABELS, 20, seed=s))] for s in (0, 1)
    ]
    assert tables[0] != tables[1]


@pytest.mark.parametrize("clients", [1, 7, 60])
def test_disjoint_nonempty_and_covering(name, clients):
    """Clients would share, lack or lose examples."""
    rule, covers = RULES[name]
    assert_valid(rule(LABELS, clients, seed=1), len(LABELS), clients, covers)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    counts=st.lists(st.integers(2, 9), min_size=2, max_size=5),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
def test_contract_on_any_labels(counts, share, seed):
    """A rule would break on few, rare or as many clients as examples."""
    labels = np.repeat(np.arange(len(counts)), counts)
    for rule, covers in RULES.values():
        most = len(labels) if covers else len(labels) // 3
        clients = 1 + int(share * (most - 1))
        assert_valid(rule(labels, clients, seed=seed), len(labels), clients, covers)


def test_labels_are_only_names(name):
    """Gaps between labels, or their integer type, would change the clients."""
    rule, _ = RULES[name]
    plain = rule(LABELS, 20, seed=2)
    for other in (LABELS * 40 + 3, LABELS.astype(np.uint8), LABELS.astype(np.uint64)):
        np.testing.assert_array_equal(rule(other, 20, seed=2).order, plain.order)


@pytest.mark.parametrize("name", EQUAL)
def test_sizes_differ_by_at_most_one(name):
    """A balanced rule would be unbalanced when clients do not divide the examples."""
    rule, _ = RULES[name]
    assert np.ptp(rule(LABELS, 37, seed=0).size) == 1
    assert np.ptp(rule(LABELS, 20, seed=0).size) == 0


def test_rows_of_a_client_are_not_sorted_by_label(name):
    """The first rows of a client, a held-out part say, would all be of one class."""
    rule, _ = RULES[name]
    if name in ("classes", "ladder"):
        rule = functools.partial(partitions.classes, smallest=30, largest=30)
    labels = np.sort(LABELS)
    part = rule(labels, 4, seed=0)
    assert any((np.diff(labels[rows]) < 0).any() for rows in owned(part))


@pytest.mark.slow
def test_a_hundred_thousand_clients_in_seconds(name):
    """A rule would be quadratic in the clients."""
    rule, covers = RULES[name]
    labels = np.random.default_rng(0).integers(0, 10, 400_000)
    start = time.perf_counter()
    part = rule(labels, 100_000, seed=0)
    assert time.perf_counter() - start < 30
    assert_valid(part, len(labels), 100_000, covers)


# ---- the rules -----------------------------------------------------------------------

COUNTS, CLIENTS = np.array([20, 10, 5, 5]), 4


def gumbel_top_k(rng, alpha):
    """One draw of the balanced rule, by Gumbel scores of all unassigned examples."""
    labels = np.repeat(np.arange(4), COUNTS)
    free = np.ones(len(labels), bool)
    table = np.zeros((CLIENTS, 4), int)
    for client in range(CLIENTS):
        weight = np.log(rng.dirichlet(np.full(4, alpha)) + 1e-300)[labels]
        score = np.where(free, weight + rng.gumbel(size=len(labels)), -np.inf)
        rows = np.argsort(-score)[: len(labels) // CLIENTS]
        free[rows] = False
        table[client] = np.bincount(labels[rows], minlength=4)
    return table


def visits(rng, alpha):
    """One draw of the visiting rule, one example at a time."""
    prior = rng.dirichlet(np.full(4, alpha), CLIENTS)
    room, left = np.full(CLIENTS, COUNTS.sum() // CLIENTS), COUNTS.copy()
    table = np.zeros((CLIENTS, 4), int)
    while room.any():
        client = rng.choice(np.flatnonzero(room))
        weight = np.where(left > 0, prior[client] + 1e-300, 0)
        label = rng.choice(4, p=weight / weight.sum())
        room[client] -= 1
        left[label] -= 1
        table[client, label] += 1
    return table


@pytest.mark.parametrize(
    ("rule", "reference"),
    [
        (partitions.dirichlet_balanced, gumbel_top_k),
        (partitions.dirichlet_visiting, visits),
    ],
)
def test_balanced_rules_follow_the_published_loops(rule, reference):
    """The fast drawing would have another distribution than the published loop."""
    labels = np.repeat(np.arange(4), COUNTS)
    draws = 800
    ours = [
        partitions.histogram(rule(labels, CLIENTS, seed=s, alpha=0.5), labels)
        for s in range(draws)
    ]
    rng = np.random.default_rng(1)
    theirs = [reference(rng, 0.5) for _ in range(draws)]
    for moment in (1, 2):
        a, b = np.array(ours) ** moment, np.array(theirs) ** moment
        error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / draws)
        np.testing.assert_array_less(abs(a.mean(axis=0) - b.mean(axis=0)), 4 * error)


def test_visits_are_uniform_among_non_full_clients():
    """Clients with more room would be visited more often than the others."""
    sizes, rng = np.array([1, 9]), np.random.default_rng(0)
    rounds = np.stack([quota.visits(sizes, rng) for _ in range(2000)])
    assert ((rounds == 0).sum(axis=1) == 1).all()
    # The small client is visited at its turn t with probability 2**-t.
    share = (rounds == 0).mean(axis=0)[:4]
    np.testing.assert_allclose(share, [1 / 2, 1 / 4, 1 / 8, 1 / 16], atol=0.045)


def test_balanced_draws_without_replacement():
    """A class would not become rarer while one client draws from it."""
    # Equal weights (a huge alpha) leave the hypergeometric distribution.
    draws, p, n, k = 3000, COUNTS / 40, 40, 20
    rng = np.random.default_rng(0)
    first = np.array(
        [quota.balanced(COUNTS, np.array([k, k]), 1e9, rng)[0] for _ in range(draws)]
    )
    np.testing.assert_allclose(first.mean(axis=0), k * p, atol=0.15)
    variance = k * p * (1 - p) * (n - k) / (n - 1)
    np.testing.assert_allclose(first.var(axis=0), variance, rtol=0.15)


@pytest.mark.parametrize(
    "rule",
    [
        partitions.dirichlet,
        partitions.dirichlet_balanced,
        partitions.dirichlet_visiting,
    ],
)
def test_alpha_sets_the_label_skew(rule):
    """alpha would be ignored or inverted; tiny ones would underflow."""

    def dominance(alpha):
        tables = [
            partitions.histogram(rule(LABELS, 10, seed=s, alpha=alpha), LABELS)
            for s in range(10)
        ]
        return np.mean([t.max(axis=1) / t.sum(axis=1) for t in tables])

    # From nearly one class per client to the even mix, whose largest share is 0.3.
    extreme, skewed, even = map(dominance, (1e-4, 0.5, 1e4))
    assert extreme > skewed + 0.1
    assert skewed > even + 0.1
    assert even < 0.45


@pytest.mark.parametrize("alpha", [0.2, 2.0])
def test_dirichlet_shares_have_dirichlet_moments(alpha):
    """Shares of a class would not be Dirichlet(alpha) over the clients."""
    table = np.stack(
        [
            quota.per_class(np.array([10**6]), 5, alpha, np.random.default_rng(s))[:, 0]
            for s in range(2000)
        ]
    )
    np.testing.assert_array_equal(table.sum(axis=1), 10**6)
    share = table / 10**6
    np.testing.assert_allclose(share.mean(axis=0), 0.2, atol=0.03)
    np.testing.assert_allclose(
        share.var(axis=0), 0.2 * 0.8 / (5 * alpha + 1), rtol=0.15
    )


@pytest.mark.parametrize("rule", [partitions.dirichlet, partitions.quantity])
@pytest.mark.parametrize("smallest", [1, 7, 10])
def test_no_client_is_below_smallest(rule, smallest):
    """The repair would leave small clients, or lose examples."""
    part = rule(LABELS, 20, seed=0, alpha=0.01, smallest=smallest)
    assert part.size.min() >= smallest
    assert_valid(part, len(LABELS), 20, covers=True)


def test_dirichlet_repair_moves_no_more_than_it_must():
    """The repair would redraw clients that were large enough."""
    raw = quota.per_class(np.bincount(LABELS), 20, 0.1, np.random.default_rng(5))
    part = partitions.dirichlet(LABELS, 20, seed=5, alpha=0.1, smallest=4)
    table = partitions.histogram(part, LABELS)
    assert (raw.sum(axis=1) < 4).any()
    same = (table == raw).all(axis=1)
    medium = (raw.sum(axis=1) >= 4) & (raw.sum(axis=1) <= np.median(part.size))
    assert medium.any()
    assert same[medium].all()


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(size=st.lists(st.integers(0, 30), min_size=1, max_size=8), share=st.floats(0, 1))
def test_levelled(size, share):
    """Raising small sizes would change the total, or take from the wrong clients."""
    size = np.array(size)
    smallest = int(share * (size.sum() // len(size)))
    new = quota.levelled(size, smallest)
    assert new.sum() == size.sum()
    assert new.min() >= smallest
    payers = new < size
    assert np.ptp(new[payers]) <= 1 if payers.any() else True
    # Nobody who paid nothing ends above the payers by more than the odd example.
    assert not payers.any() or new.max() <= new[payers].min() + 1


def test_quantity_skews_sizes_and_not_labels():
    """Sizes would be even, or the classes of a client would be skewed."""
    labels = np.arange(20_000) % 4
    part = partitions.quantity(labels, 10, seed=0, alpha=0.3)
    assert part.size.max() > 3 * np.median(part.size)
    share = partitions.histogram(part, labels)[np.argmax(part.size)] / part.size.max()
    np.testing.assert_allclose(share, 0.25, atol=0.03)
    even = partitions.quantity(labels, 10, seed=0, alpha=1e6).size
    np.testing.assert_allclose(even, 2000, rtol=0.01)


def test_shards_are_runs_of_the_sorted_labels():
    """Clients would get scattered examples instead of label-sorted shards."""
    labels = np.random.default_rng(1).permutation(np.repeat(np.arange(5), 40))
    part = partitions.shards(labels, 20, seed=0, shards_per_client=2)
    place = np.empty(200, int)
    place[np.argsort(labels, kind="stable")] = np.arange(200)
    for rows in owned(part):
        shard, count = np.unique(place[rows] // 5, return_counts=True)
        assert shard.size == 2
        assert (count == 5).all()
    # Dealt at random, clients hold two distant shards at times.
    assert ((partitions.histogram(part, labels) > 0).sum(axis=1) == 2).sum() > 5


def test_classes_gives_two_classes_and_sizes_in_range():
    """FedMoS's MNIST clients would have other sizes or numbers of classes."""
    labels = np.arange(60_000) % 10
    part = partitions.classes(labels, 500, seed=0)
    table = partitions.histogram(part, labels)
    assert part.size.min() == 10
    assert part.size.max() == 50
    assert ((table > 0).sum(axis=1) == 2).all()
    assert 14_000 < part.size.sum() < 16_000
    assert (np.bincount(part.size)[10:] > 0).sum() > 38


@pytest.mark.parametrize(("size", "parts", "low"), [(10, 2, 2), (9, 3, 2), (4, 4, 1)])
def test_compositions_are_uniform(size, parts, low):
    """The split between a client's labels would be biased or out of bounds."""
    draws = 6000
    rows = quota.compositions(
        np.full(draws, size), parts, low, np.random.default_rng(0)
    )
    allowed = [
        c
        for c in itertools.product(range(1, size + 1), repeat=parts)
        if sum(c) == size and min(c[:-1]) >= low
    ]
    found, count = np.unique(rows, axis=0, return_counts=True)
    assert [tuple(row) for row in found] == sorted(allowed)
    expected = draws / len(allowed)
    np.testing.assert_allclose(count, expected, atol=4.5 * np.sqrt(expected))


def test_the_first_label_gets_at_least_a_quarter_of_smallest():
    """The lower bound of the published split would be lost."""
    part = partitions.classes(
        np.arange(40_000) % 10, 1000, seed=0, smallest=20, largest=20
    )
    table = partitions.histogram(part, np.arange(40_000) % 10)
    # r uniform in [5, 19]: a label has fewer than 5 only as the second, for r > 15.
    small = ((table > 0) & (table < 5)).any(axis=1).mean()
    assert abs(small - 4 / 15) < 4 * np.sqrt(4 / 15 * 11 / 15 / 1000)


def test_labels_are_picked_in_proportion_to_what_is_left():
    """Rare classes would be picked as often as frequent ones."""
    counts, draws = np.array([60, 30, 10]), 4000
    rng = np.random.default_rng(0)
    part = np.array([[2, 1]])
    tables = [tuple(quota.picked(counts, part, rng)[0]) for _ in range(draws)]
    # P(first = a, second = b) = p_a p_b / (1 - p_a)
    for a, b in itertools.permutations(range(3), 2):
        want = tuple(2 * (c == a) + (c == b) for c in range(3))
        p = counts[a] / 100 * counts[b] / (100 - counts[a])
        assert abs(tables.count(want) / draws - p) < 4 * np.sqrt(p * (1 - p) / draws)


@pytest.mark.parametrize(
    ("counts", "parts", "kinds"),
    [
        ([5, 4, 4, 4, 4], [4, 5], 2),  # only pairs with the fullest suffice
        ([3, 3, 3, 3], [5, 5], 4),  # no two labels suffice
        ([12, 0, 0], [4, 4], 1),  # no two labels are left
    ],
)
def test_low_classes_never_cut_a_client_short(counts, parts, kinds):
    """Late clients would end short, or with more classes than they need."""
    for seed in range(20):
        table = quota.picked(
            np.array(counts), np.array([parts]), np.random.default_rng(seed)
        )
        assert table.sum() == sum(parts)
        assert (table <= counts).all()
        assert (table > 0).sum() == kinds


@pytest.mark.parametrize("seed", range(21))
def test_classes_on_digits_with_hardly_an_example_to_spare(seed):
    """The experiments on scikit-learn's digits would lose clients or examples."""
    labels = np.random.default_rng(seed).permutation(load_digits().target)[:1078]
    part = partitions.classes(labels, 100, seed=seed, smallest=4, largest=16)
    assert_valid(part, 1078, 100, covers=False)
    assert part.size.min() >= 4
    assert part.size.max() <= 16
    table = partitions.histogram(part, labels)
    assert ((table > 0).sum(axis=1) == 2).sum() >= 98


def test_overlapping_is_the_printed_text():
    """FedMoS, Section V: 5 of 10 classes and 20 to 200 examples per CIFAR client."""
    labels = np.random.default_rng(0).permutation(np.arange(50_000) % 10)
    part = partitions.overlapping(labels, 500, seed=0)
    assert part.size.min() >= 20 and part.size.max() <= 200
    assert np.unique(part.size).size > 150  # random, no ladder
    assert abs(part.size.mean() - 110) < 5 * 52 / np.sqrt(500)
    assert part.size.sum() > 50_000  # no division without overlap could do this
    table = partitions.histogram(part, labels)
    assert ((table > 0).sum(axis=1) == 5).all()
    held = np.where(table > 0, table, part.size[:, None])
    assert (table.max(axis=1) - held.min(axis=1) <= 1).all()  # equal parts
    for rows in np.split(part.order, np.cumsum(part.size)[:-1]):
        assert len(np.unique(rows)) == len(rows)  # no example twice in one client
    assert len(np.unique(part.order)) < len(part.order)
    # Every class is as likely as any other.
    often = (table > 0).mean(axis=0)
    np.testing.assert_allclose(often, 0.5, atol=5 * 0.5 / np.sqrt(500))
    with pytest.raises(ValueError, match="largest must be between 5 and 25000"):
        partitions.overlapping(labels, 5, seed=0, largest=25_001)


def test_ladder_is_the_published_one():
    """FedMoS's CIFAR-10 clients would have other sizes, or uneven labels."""
    labels = np.repeat(np.arange(10), 5000)
    part = partitions.ladder(labels, 500, seed=0)
    want = np.repeat([200, 150, 100, 50, 20], [50, 100, 150, 150, 50])
    np.testing.assert_array_equal(part.size, want)
    table = partitions.histogram(part, labels)
    assert (table.max(axis=1) == want // 5).all()
    assert ((table > 0).sum(axis=1) == 5).all()


def test_ladder_splits_what_does_not_divide():
    """A size that is no multiple of the classes would lose examples."""
    part = partitions.ladder(
        LABELS, 4, seed=0, classes_per_client=3, sizes=(11, 7), fractions=(0.25, 0.75)
    )
    np.testing.assert_array_equal(part.size, [11, 7, 7, 7])
    table = np.sort(partitions.histogram(part, LABELS))[:, -3:]
    np.testing.assert_array_equal(table[:2], [[3, 4, 4], [2, 2, 3]])


def test_natural_is_one_client_per_id():
    """Writers would be mixed, or come in another order."""
    groups = np.array(["c", "a", "c", "b", "a", "c"])
    part = partitions.natural(groups)
    assert [rows.tolist() for rows in owned(part)] == [[1, 4], [3], [0, 2, 5]]
    with pytest.raises(ValueError, match="groups must have one id per example"):
        partitions.natural(np.zeros((2, 2)))


def test_histogram_counts():
    """The heterogeneity we report would not be that of the clients."""
    part = partitions.dirichlet(LABELS, 8, seed=0, alpha=0.5)
    table = partitions.histogram(part, LABELS, classes=7)
    want = [[int((LABELS[rows] == c).sum()) for c in range(7)] for rows in owned(part)]
    assert table.tolist() == want
    with pytest.raises(ValueError, match="classes must be between 5 and inf"):
        partitions.histogram(part, LABELS, classes=4)


# ---- errors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:, None], r"labels must be a 1-D array .* shape \(200, 1\)"),
        (LABELS / 2, "labels must be .* dtype float64"),
        (LABELS - 1, "labels must be .* smallest -1"),
    ],
)
def test_bad_labels_are_named(name, labels, message):
    """One-hot, float or negative labels would be dealt as if they were classes."""
    rule, _ = RULES[name]
    if name in ANY_LABELS:
        plain, other = rule(LABELS, 5, seed=0), rule(labels, 5, seed=0)
        np.testing.assert_array_equal(other.order, plain.order)
        np.testing.assert_array_equal(other.size, plain.size)
        return
    with pytest.raises(ValueError, match=message):
        rule(labels, 5, seed=0)


@pytest.mark.parametrize("name", ANY_LABELS)
def test_a_single_label_is_no_data_set(name):
    """A number in place of an array would fail without a name."""
    with pytest.raises(ValueError, match="labels must have one row per example: got 3"):
        RULES[name][0](3, 1, seed=0)


@pytest.mark.parametrize("clients", [0, 201])
def test_bad_numbers_of_clients_are_named(name, clients):
    """A client without examples would only be found much later."""
    message = (
        rf"clients must be between 1 and 200 \(the number of examples\): got {clients}"
    )
    with pytest.raises(ValueError, match=message):
        RULES[name][0](LABELS, clients, seed=0)


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        (
            partitions.dirichlet,
            {"alpha": 0},
            "alpha must be positive and finite: got 0",
        ),
        (partitions.dirichlet_balanced, {"alpha": -1.0}, "alpha must be .* got -1.0"),
        (partitions.dirichlet_visiting, {"alpha": np.inf}, "alpha must be .* got inf"),
        (partitions.quantity, {"alpha": np.nan}, "alpha must be .* got nan"),
        (
            partitions.dirichlet,
            {"alpha": 1, "smallest": 21},
            r"smallest must be between 1 and 20 \(examples per client\): got 21",
        ),
        (
            partitions.quantity,
            {"alpha": 1, "smallest": 0},
            "smallest must be between 1 and 20 .* got 0",
        ),
        (
            partitions.shards,
            {"shards_per_client": 21},
            "shards_per_client must be between 1 and 20 .* got 21",
        ),
        (
            partitions.shards,
            {"shards_per_client": 2.5},
            "shards_per_client must be an integer: got 2.5",
        ),
        (
            partitions.classes,
            {"classes_per_client": 6},
            r"classes_per_client must be between 1 and 5 \(the number of classes\)",
        ),
        (
            partitions.classes,
            {"smallest": 9, "largest": 8},
            "smallest must be between 2 and 8 .* got 9",
        ),
        (
            partitions.classes,
            {"smallest": 30, "largest": 30},
            "10 clients ask for 300 examples and there are 200: lower clients or larg",
        ),
        (
            partitions.ladder,
            {},
            "10 clients ask for 970 examples and there are 200: lower clients or sizes",
        ),
        (
            partitions.ladder,
            {"sizes": (20, 4), "fractions": (0.5, 0.5)},
            "sizes must be between 5 and 200 .* got 4",
        ),
        (
            partitions.ladder,
            {"sizes": (20, 10), "fractions": (0.5, 0.4)},
            r"fractions must be 2 non-negative .* got \(0.5, 0.4\)",
        ),
        (
            partitions.ladder,
            {"sizes": (20, 10), "fractions": (0.5, 0.25, 0.25)},
            "fractions must be 2 non-negative",
        ),
    ],
)
def test_bad_options_are_named(rule, options, message):
    """A wrong option would fail far from its cause, or be dealt silently."""
    with pytest.raises(ValueError, match=message):
        rule(LABELS, 10, seed=0, **options)
