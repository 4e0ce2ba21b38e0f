"""Changing pools of candidates around any sampler."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests.samplers.population import KEYS, near, population, see, tools, weights_of

pytestmark = pytest.mark.thorough

POOL, EVERY = 5, 4
SIZES = np.array([3, 10, 7, 12, 6, 5, 9, 2, 4, 8, 1, 11])
INNER = {
    "adaptive": fm.samplers.adaptive,
    "multinomial": fm.samplers.multinomial,
    "uniform": fm.samplers.uniform,
    "share": partial(fm.samplers.uniform, weights="share"),
    "bernoulli": fm.samplers.bernoulli,
}


@cache
def pooled(name):
    """Twelve rounds of pools, and many cohorts from each of two pools."""
    sampler = fm.samplers.pools(INNER[name](tools(3)), POOL, EVERY)
    data = population(SIZES)
    keys = jax.random.split(jax.random.key(3), 12)
    many = jax.random.split(jax.random.key(4), KEYS // 2)

    @jax.jit
    def go(start):
        def step(state, xs):
            t, key = xs
            cohort, state = sampler.sample(state, see(data, round=t), key)
            return state, (cohort, state.present, state)

        _, (cohorts, present, states) = jax.lax.scan(
            step, start, (jnp.arange(12), keys)
        )

        def within(t):
            # After round t the pool stays for another round.
            state = jax.tree.map(lambda leaf: leaf[t], states)
            view = see(data, round=t + 1)
            return jax.vmap(lambda key: sampler.sample(state, view, key)[0])(many)

        return cohorts, present, jax.vmap(within)(jnp.array([0, EVERY + 1]))

    start = sampler.init(see(data), jax.random.key(9))
    cohorts, present, within = jax.device_get(go(start))
    np.testing.assert_array_equal(present[0], start.present)  # the first stage's pool
    return cohorts, present, [jax.tree.map(lambda x, i=i: x[i], within) for i in (0, 1)]


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
    view, key = see(population(SIZES)), jax.random.key(0)
    adaptive, uniform = fm.samplers.adaptive(tools(3)), fm.samplers.uniform(tools(6))
    with pytest.raises(ValueError, match="every must be at least 1: got 0"):
        fm.samplers.pools(adaptive, POOL, 0)
    with pytest.raises(ValueError, match="at most the number of clients, 12: got 13"):
        fm.samplers.pools(adaptive, 13, 2).init(view, key)
    with pytest.raises(ValueError, match="at most the number of clients, 5: got 6"):
        fm.samplers.pools(uniform, POOL, 2).init(view, key)


def test_restricted_data_keep_their_store():
    """Pools move ids, not examples: power of choice must see the right clients."""
    sizes = np.array([2, 2, 2, 2, 2, 2])
    level = np.array([0.1, 0.6, 0.3, 0.5, 0.2, 0.4])
    data = population(sizes, np.repeat(level, sizes)[:, None])

    def loss(params, batch, key):
        return fm.losses.masked_mean(batch.x[:, 0], batch.mask)

    choice = fm.samplers.power_of_choice(tools(1, loss), candidates=3)
    sampler = fm.samplers.pools(choice, 3, 1)
    state = sampler.init(see(data), jax.random.key(0))
    step = jax.jit(sampler.sample)
    for t in range(6):
        cohort, state = step(state, see(data, round=t), jax.random.key(t))
        present = np.asarray(state.present)
        assert int(cohort.ids[0]) == present[level[present].argmax()]
