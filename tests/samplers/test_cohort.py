"""What samplers share: merged draws and uniform subsets."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.samplers.cohort import merge_duplicates, subset
from tests.samplers.population import ALPHA, KEYS, unlike


def test_merge_duplicates():
    """Merging is what makes `a live client has one slot` true."""
    cohort = merge_duplicates(jnp.array([4, 2, 4, 0, 4]), jnp.arange(1.0, 6.0))
    live = np.asarray(cohort.mask)
    got = dict(
        zip(cohort.ids[live].tolist(), cohort.weights[live].tolist(), strict=True)
    )
    assert got == {0: 4.0, 2: 2.0, 4: 9.0}
    assert live.sum() == 3 and (np.asarray(cohort.weights)[~live] == 0).all()


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
