"""Clients grouped by their gradients: orders and bins."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedjax_mos as fm
from tests import problem

GROUPS = np.array([0, 1, 2] * 4)  # twelve clients in three planted groups
SIZES = np.array([3, 10, 7, 12, 6, 5, 9, 2, 4, 8, 1, 11])


def planted(noise=0.1, seed=0):
    """Gradients around one direction per group, of very different lengths."""
    rng = np.random.default_rng(seed)
    centre = np.eye(3, 8)[GROUPS]
    length = 10.0 ** rng.uniform(-3, 3, (len(GROUPS), 1))
    return length * (centre + noise * rng.normal(size=centre.shape))


@pytest.mark.parametrize("distance", ["cosine", "angle"])
def test_planted_groups_are_found(distance):
    """Whole groups, heaviest first, and so within; lengths play no part."""
    order = fm.samplers.cluster_order(planted(), SIZES, 3, distance=distance)
    mass = np.bincount(GROUPS, weights=SIZES)
    expected = sorted(range(12), key=lambda i: (-mass[GROUPS[i]], GROUPS[i], -SIZES[i]))
    np.testing.assert_array_equal(order, expected)
    by_size = np.argsort(-SIZES, kind="stable")
    assert not np.array_equal(order, by_size)
    np.testing.assert_array_equal(
        fm.samplers.cluster_order(planted(), SIZES, 1), by_size
    )


def test_equal_clusters_stay_whole():
    """Clusters of the same mass must not be mixed by sorting."""
    gradients = np.repeat(np.eye(2), 2, axis=0)[[0, 2, 1, 3]]
    order = fm.samplers.cluster_order(gradients, [1, 1, 1, 1], 2)
    assert {frozenset(order[:2]), frozenset(order[2:])} == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }


def test_client_gradients_are_full_gradients():
    """Row i must be the gradient over all of client i's examples, none else's."""
    data, params = problem.data(), problem.softmax_params()
    loss = fm.losses.mean_loss(problem.softmax_net)
    every_client = partial(fm.samplers.client_gradients, loss, micro_batch=4)
    found, gradient = jax.jit(every_client)(params, data), jax.jit(jax.grad(loss))
    for i in range(len(problem.SIZES)):
        start = int(data.offset[i])
        rows = data.order[start : start + int(data.size[i])]
        every = fm.types.Batch(data.x[rows], data.y[rows], jnp.ones(len(rows), bool))
        expected = gradient(params, every, jax.random.key(0))
        for name, leaf in expected.items():
            np.testing.assert_allclose(found[name][i], leaf, rtol=1e-4, atol=1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_bins_hold_every_client(draw):
    """Rows sum to D and columns to M D_i: otherwise the sampler is biased."""
    n = draw.draw(st.integers(1, 12))
    cohort = draw.draw(st.integers(1, n))
    sizes = np.array(draw.draw(st.lists(st.integers(1, 60), min_size=n, max_size=n)))
    gradients = draw.draw(arrays(np.float32, (n, 3), elements=st.integers(-2, 2)))
    bins = fm.samplers.similar_bins(gradients, sizes, cohort)
    assert bins.shape == (cohort, n) and (bins >= 0).all()
    np.testing.assert_array_equal(bins.sum(axis=1), np.full(cohort, sizes.sum()))
    np.testing.assert_array_equal(bins.sum(axis=0), cohort * sizes)


def test_bins_are_the_planted_groups():
    """Three equal groups and three draws: a bin is a group, whatever the sizes."""
    sizes = np.array([1, 5, 4, 4, 3, 2, 2, 1, 3, 3, 1, 1])
    assert np.bincount(GROUPS, weights=sizes).tolist() == [10, 10, 10]
    bins = fm.samplers.similar_bins(planted(), sizes, 3)
    members = {frozenset(np.flatnonzero(row)) for row in bins}
    assert members == {frozenset(np.flatnonzero(g == GROUPS)) for g in range(3)}


def test_a_large_client_fills_bins_of_its_own():
    """D = 20, M = 4: a client of 13 owns two bins and 12 of 20 units of a third."""
    bins = fm.samplers.similar_bins(np.eye(4), [13, 3, 2, 2], 4)
    assert sorted(bins[:, 0].tolist()) == [0, 12, 20, 20]


def test_a_group_is_cut_where_it_exceeds_a_bin():
    """Six alike and two others, M = 2: no bin can hold the six, and mass is kept."""
    gradients = np.array([[1.0, 0]] * 6 + [[0, 1.0]] * 2)
    bins = fm.samplers.similar_bins(gradients, np.ones(8, int), 2)
    assert (bins.sum(axis=1) == 8).all()
    others = (bins[:, 6:] > 0).any(axis=1)
    assert others.sum() == 1  # the two unlike the rest stay together


def test_unknown_clients_are_near_to_all():
    """A client never heard of, or diverged, has no direction; trees need numbers."""
    for value in (0, np.nan, np.inf):
        gradients = np.eye(6, 3)
        gradients[::2] = value
        bins = fm.samplers.similar_bins(gradients, SIZES[:6], 3)
        np.testing.assert_array_equal(bins.sum(axis=0), 3 * SIZES[:6])
