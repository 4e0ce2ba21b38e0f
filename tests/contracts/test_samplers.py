"""What every sampler promises, over the table."""

from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine.checks import check_cohort
from fedjax_mos.lab import catalog
from fedjax_mos.types import HostAssisted, Sampler, SamplerView
from tests import problem
from tests.contracts import component_tables as tables
from tests.contracts.component_tables import ALL_SAMPLERS, COHORT

CLIENTS, DRAWS, ROUNDS = len(problem.SIZES), 4000, 4
KEY = jax.random.key(2)
samplers = pytest.mark.parametrize("name", ALL_SAMPLERS)


def test_every_sampler_of_the_catalog_has_a_row():
    """A name that can be typed keeps every contract."""
    tables.check_rows(
        tables.SAMPLERS, tables.SAMPLER_VARIANTS, catalog.SAMPLERS, "SAMPLERS"
    )


def test_a_missing_row_is_named():
    """Who adds a name must learn where its row belongs."""
    names = {**catalog.SAMPLERS, "new": None}
    with pytest.raises(AssertionError, match="component_tables.py lacks .* for new"):
        tables.check_rows(tables.SAMPLERS, {}, names, "SAMPLERS")
    rows = {**tables.SAMPLERS, "old": None}
    with pytest.raises(AssertionError, match="rows in SAMPLERS of no component: old"):
        tables.check_rows(rows, {}, catalog.SAMPLERS, "SAMPLERS")


class Drawn:
    """A row's sampler, the state it starts from, and its draw as one function."""

    def __init__(self, name):
        self.row, made = ALL_SAMPLERS[name], tables.sampler_of(name)
        assert isinstance(made, HostAssisted) == self.row.host
        self.update = made.update if self.row.host else None
        self.sampler = made.sampler if self.row.host else made
        self.data = problem.data()
        algorithm = catalog.ALGORITHMS[self.row.algorithm].spec()
        self.server, _ = algorithm.build(problem.work()).init(
            problem.softmax_params(), KEY
        )
        self.state = self.sampler.init(self.view(0), KEY)
        self.traces = 0
        self.jitted = jax.jit(self.counted)

    def view(self, round):
        return SamplerView(jnp.asarray(round, jnp.int32), self.server, self.data)

    def counted(self, *args):
        self.traces += 1
        return self.sample(*args)

    def sample(self, state, round, key):
        return self.sampler.sample(state, self.view(round), key)


drawn = cache(Drawn)


@cache
def many(name):
    """DRAWS cohorts at once, as NumPy."""
    made, keys = drawn(name), jax.random.split(KEY, DRAWS)
    choose = jax.vmap(lambda key: made.sample(made.state, 1, key)[0])
    return jax.device_get(jax.jit(choose)(keys))


@samplers
def test_a_cohort_is_well_formed(name):
    """The right number of slots, ids in range, one live slot per client."""
    made, row = drawn(name), ALL_SAMPLERS[name]
    assert isinstance(made.sampler, Sampler)
    assert made.sampler.takes_all == row.takes_all
    slots = row.slots(CLIENTS, COHORT)
    cohorts = many(name)
    assert cohorts.ids.shape == (DRAWS, slots)
    assert np.issubdtype(cohorts.ids.dtype, np.integer)
    assert cohorts.mask.dtype == bool
    assert cohorts.weights.dtype == jnp.zeros(()).dtype
    for i in range(0, DRAWS, 40):
        check_cohort(jax.tree.map(lambda leaf, i=i: leaf[i], cohorts), CLIENTS)
    live = np.where(cohorts.mask, cohorts.weights, 0)
    assert (live >= 0).all() and np.isfinite(cohorts.weights).all()
    if row.algorithm == "fedavg":
        assert cohorts.mask.any(axis=1).all()  # somebody takes part
        reached = set(np.unique(cohorts.ids[cohorts.mask]).tolist())
        assert (reached == set(range(CLIENTS))) == row.reaches_all


@samplers
def test_the_weights_are_what_the_row_says(name):
    """E[w_i] = p_i makes an aggregate unbiased (five standard errors)."""
    row, cohorts = ALL_SAMPLERS[name], many(name)
    w = np.zeros((DRAWS, CLIENTS))
    at = np.arange(DRAWS)[:, None], cohorts.ids
    np.add.at(w, at, np.where(cohorts.mask, cohorts.weights, 0))
    if row.algorithm == "fedavg":
        sums = np.allclose(w.sum(axis=1), 1, rtol=1e-5)
        assert sums == row.sums_to_one
    share = np.array(problem.SIZES) / sum(problem.SIZES)
    error = w.std(axis=0) / np.sqrt(DRAWS)
    near = abs(w.mean(axis=0) - share) < 5 * error + 1e-6
    assert near.all() == row.unbiased


@samplers
def test_a_draw_is_pure_and_keeps_its_state_scannable(name):
    """Equal keys draw alike; a run is a scan, so shapes and dtypes stay."""
    made = drawn(name)
    cohort, state = made.jitted(made.state, 0, KEY)
    again, _ = made.jitted(made.state, 0, KEY)
    chex.assert_trees_all_equal(cohort, again)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, made.state)
    before = made.traces
    for t in range(1, ROUNDS):  # a weak type would compile again
        _, state = made.jitted(state, t, jax.random.fold_in(KEY, t))
    assert made.traces == before
    different = len(
        {tuple(ids) for ids in np.where(many(name).mask, many(name).ids, -1)}
    )
    assert (different > 1) == ALL_SAMPLERS[name].draws


@pytest.mark.thorough
@samplers
def test_a_draw_is_the_same_without_jit_and_under_vmap(name):
    """A round is jitted, a run scanned, a sweep vmapped: all must choose alike."""
    made = drawn(name)
    keys = jax.random.split(KEY, DRAWS)[:ROUNDS]
    singles = [made.jitted(made.state, 1, key)[0] for key in keys]
    looped = jax.tree.map(lambda *leaves: np.stack(leaves), *singles)
    mapped = jax.tree.map(lambda leaf: leaf[:ROUNDS], many(name))
    chex.assert_trees_all_close(mapped, looped, rtol=1e-6)
    slow = made.sample(made.state, 1, keys[1])
    chex.assert_trees_all_close(slow[0], singles[1], rtol=1e-6)

    def body(state, xs):
        cohort, state = made.sample(state, *xs)
        return state, cohort

    last, scanned = jax.lax.scan(body, made.state, (jnp.arange(ROUNDS), keys))
    state = made.state
    for t in range(ROUNDS):
        cohort, state = made.jitted(state, t, keys[t])
        one = jax.tree.map(lambda leaf, t=t: leaf[t], scanned)
        chex.assert_trees_all_close(cohort, one, rtol=1e-6)
    chex.assert_trees_all_close(last, state, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n, row in ALL_SAMPLERS.items() if row.host])
def test_what_the_host_finds_fits_the_state(name):
    """The host's state replaces the sampler's between rounds, and stays unbiased."""
    made = drawn(name)
    sim = fm.simulation(
        catalog.ALGORITHMS["fedavg"].spec(),
        fm.local_work(
            fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(1, 3)
        ),
        tables.spec_of(catalog.SAMPLERS, name, ALL_SAMPLERS[name]),
        cohort=COHORT,
    )
    before = sim.init(problem.softmax_params(), made.data, KEY)
    found = sim.host_update.compute(made.data, before)
    chex.assert_trees_all_equal_shapes_and_dtypes(found.sampler, before.sampler)
    assert isinstance(found.bits_up, int) and isinstance(found.bits_down, int)
    keys = jax.random.split(KEY, DRAWS)
    choose = jax.vmap(lambda key: made.sample(found.sampler, 1, key)[0])
    cohorts = jax.device_get(jax.jit(choose)(keys))
    w = np.zeros((DRAWS, CLIENTS))
    np.add.at(w, (np.arange(DRAWS)[:, None], cohorts.ids), cohorts.weights)
    share = np.array(problem.SIZES) / sum(problem.SIZES)
    error = w.std(axis=0) / np.sqrt(DRAWS)
    np.testing.assert_array_less(abs(w.mean(axis=0) - share), 5 * error + 1e-6)
