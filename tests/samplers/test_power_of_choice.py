"""Power-of-choice: the worst of the candidates."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.samplers.uniform import weighted_subset
from tests.samplers.population import population, see, tools


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
        return params * fm.losses.masked_mean(batch.x[:, 0], batch.mask)

    sampler, everyone = (
        fm.samplers.power_of_choice(tools(cohort, loss), candidates=n, micro_batch=2)
        for n in (candidates, len(sizes))
    )

    @jax.jit
    @jax.vmap
    def chosen(key):
        drawn = weighted_subset(jax.random.split(key)[0], data.size, candidates)
        some, _ = sampler.sample((), see(data, 1.0), key)
        return drawn, some, everyone.sample((), see(data, -1.0), key)[0]

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


def test_too_many_candidates_are_refused():
    """Candidates that do not exist, quietly left out."""
    data = population(np.array([3, 1, 4]), np.zeros((8, 1)))
    sampler = fm.samplers.power_of_choice(tools(2), candidates=4)
    with pytest.raises(ValueError, match="at most the number of clients, 3: got 4"):
        sampler.init(see(data, 1.0), jax.random.key(0))


def test_too_few_candidates_are_refused():
    """More slots than candidates would leave slots without a client."""
    with pytest.raises(ValueError, match="candidates must be at least cohort, 3"):
        fm.samplers.power_of_choice(tools(3), candidates=2)
