"""Importance of clients apart from their sizes: one whole number each, their mass."""

import dataclasses
from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.held_out import set_aside
from fedjax_mos.data.store import views
from fedjax_mos.lab import folders
from fedjax_mos.samplers.clustered import from_bins
from tests import problem
from tests.samplers.population import population, see, tools

MASS, SIZES = (5, 1, 9, 2, 2, 4), problem.SIZES
KEYS = jax.random.split(jax.random.key(3), 20)
SAMPLERS = {
    "eq28": fm.samplers.uniform,
    "share": partial(fm.samplers.uniform, weights="share"),
    "release": fm.samplers.uniform_release,
    "multinomial": fm.samplers.multinomial,
    "adaptive": fm.samplers.adaptive,
    "systematic": fm.samplers.systematic,
    "bernoulli": partial(fm.samplers.bernoulli, weights="share"),
    "everyone": fm.samplers.everyone,
    "bins": lambda tools: from_bins(tools.cohort),
    "pool": lambda tools: fm.samplers.pools(fm.samplers.adaptive(tools), 4, 2),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_read_masses_where_they_read_sizes(name):
    """Clients of mass m are drawn and weighed as clients with m examples are."""
    sampler = SAMPLERS[name](tools(3))
    other = dataclasses.replace(population(SIZES), given_mass=jnp.array(MASS))

    @jax.jit
    def cohorts(data):
        state = sampler.init(see(data), KEYS[0])
        return jax.vmap(lambda key: sampler.sample(state, see(data), key)[0])(KEYS)

    chex.assert_trees_all_equal(cohorts(other), cohorts(population(MASS)))
    plain = cohorts(population(SIZES))
    assert (np.asarray(plain.weights) != np.asarray(cohorts(other).weights)).any() or (
        np.asarray(plain.ids) != np.asarray(cohorts(other).ids)
    ).any()


@pytest.mark.thorough
def test_clusters_are_filled_by_mass():
    """CACS orders and clustered sampling pours what samplers then draw from."""
    data = fm.federate(*problem.arrays(), problem.partition(), mass=MASS)
    local = fm.local_work(
        fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(1, 3)
    )
    for make in (fm.samplers.clustered_adaptive, fm.samplers.clustered):
        algorithm, sampler = fm.spec(fm.algorithms.fedavg), fm.spec(make)
        sim = fm.simulation(algorithm, local, sampler, cohort=3)
        state = sim.init(problem.softmax_params(), data, KEYS[0])
        found = sim.host_update.compute(data, state).sampler
        if make is fm.samplers.clustered:
            poured = np.diff(np.asarray(found), axis=1, prepend=0)
            np.testing.assert_array_equal(poured.sum(axis=1), sum(MASS))
            np.testing.assert_array_equal(poured.sum(axis=0), 3 * np.array(MASS))
        else:
            ends = np.cumsum(np.array(MASS)[np.asarray(found.order)])
            np.testing.assert_array_equal(found.ends, ends)


def test_a_client_sees_its_share_of_the_mass():
    """FedDyn and FedDC scale by N p_i; batches still come from the examples."""
    data = fm.federate(*problem.arrays(), problem.partition(), mass=MASS)
    view = views(data, jnp.arange(6))
    p = np.array(MASS) / sum(MASS)
    np.testing.assert_allclose(view.share, p, rtol=1e-6)
    np.testing.assert_allclose(view.importance, 6 * p, rtol=1e-6)
    np.testing.assert_array_equal(view.size, SIZES)
    for part in set_aside(data, 0.5, seed=0):
        np.testing.assert_array_equal(part.mass, MASS)


@pytest.mark.parametrize("batch_size", [4, 200])
def test_means_over_a_store_weigh_clients_by_mass(batch_size):
    """sum_i p_i f_i is what a method with these weights minimises; NumPy says it."""
    (x, y), parts = problem.arrays(), problem.partition()
    data = fm.federate(x, y, parts, mass=MASS)
    params = problem.tanh_params()
    measure = fm.losses.measures(problem.tanh_net)
    state = fm.types.RoundState(*[None] * len(fm.types.RoundState._fields))
    state = state._replace(server=problem.Server(params))
    found = fm.evaluator(measure, batch_size)(state, {"train": data})
    w, v = (np.asarray(params[n], float) for n in ("w", "v"))
    z = np.tanh(x.astype(float) @ w) @ v
    loss = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]
    rows = np.split(parts.order, np.cumsum(SIZES)[:-1])
    p = np.array(MASS) / sum(MASS)
    expected = sum(p[i] * loss[own].mean() for i, own in enumerate(rows))
    np.testing.assert_allclose(found["train_loss"], expected, rtol=1e-5)
    assert abs(expected - loss.mean()) > 1e-3
    # A client without examples (held out) has no mean and does not count.
    few = set_aside(data, 0.2, seed=0)[1]
    empty = np.asarray(few.size) == 0
    assert empty[0]
    order = np.split(np.asarray(few.order), np.cumsum(few.size)[:-1])
    means = [loss[own].mean() if len(own) else 0 for own in order]
    kept = np.where(empty, 0, MASS)
    found = fm.evaluator(measure, batch_size)(state, {"own": few})
    np.testing.assert_allclose(found["own_loss"], kept @ means / kept.sum(), rtol=1e-5)


@pytest.mark.thorough
def test_an_experiment_says_what_clients_count_with():
    """`importance` reaches data, loss and file; by size it is what it was."""
    common = {"rounds": 1, "clients": 5, "cohort": 2, "per_client": "global"}
    plain = fm.Experiment(**common)
    mass = np.array([4, 1, 1, 2, 9])
    data = plain.build().data
    assert data.given_mass is None and data.mass is data.size
    assert fm.Experiment(**common, importance="size").build().data.given_mass is None
    for importance, expected in (("uniform", np.ones(5)), (mass, mass)):
        one = fm.Experiment(**common, importance=importance)
        again = folders.experiment_of(
            folders.from_json(folders.as_json(folders.config(one, "run")))
        )
        assert again is not None and again == one
        result = one.run(progress=False)
        assert (np.asarray(one.build().data.mass) == expected).all()
        means = result.clients["train_loss"]
        (row,) = result.frame.itertuples()
        np.testing.assert_allclose(
            row.train_loss, expected @ means / expected.sum(), rtol=1e-5
        )


@pytest.mark.parametrize(
    "wrong, message",
    [
        ([1, 2], r"mass must hold one whole number per client, 6; .*: got \[1 2\]"),
        ([0.5] * 6, r"round\(10\*\*6 \* p\): got .*, float64"),
        ([3, 0, 1, 1, 1, 1], "mass must be at least 1: client 1 has 0"),
        ([2**30] * 6, r"mass must sum to at most 2\*\*31 - 1: got"),
    ],
)
def test_wrong_masses_are_refused(wrong, message):
    """A mass that is no whole number would make exact samplers inexact."""
    with pytest.raises(ValueError, match=message):
        fm.federate(*problem.arrays(), problem.partition(), mass=wrong)


def test_a_wrong_importance_is_refused():
    """In the words of the field, before anything is loaded or compiled."""
    with pytest.raises(ValueError, match="importance must be one of size, uniform"):
        fm.Experiment(importance="mass")
    one = fm.Experiment(importance=(1, 2), clients=5, cohort=2)
    with pytest.raises(ValueError, match="importance must hold one whole number per"):
        one.build()
