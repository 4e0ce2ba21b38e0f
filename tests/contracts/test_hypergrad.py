"""Both modes of differentiation through twenty rounds, and `hypergrad` by default.

Central differences are meaningful in float64 only: tests/float64.py runs this file in
its own process.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.hypergradients.hypergrad import differentiator
from tests import problem
from tests.contracts import harness
from tests.contracts.harness import thrifty
from tests.contracts.table import ALGORITHMS, ROWS, spec_of
from tests.contracts.test_gradients import step_size

pytestmark = pytest.mark.thorough

ROUNDS, STEP = 20, 1e-6
OFTEN = ("fedavg",)
TEST = {"test": fm.federate(*problem.arrays())}
float64 = pytest.mark.skipif(not jax.config.jax_enable_x64, reason="needs float64")


def made(name):
    """The row `name`, assembled; its `start` takes the algorithm's numbers."""
    sim, data = harness.simulate(name), problem.data()

    def start(key, numbers=None):
        hp = numbers and {"algorithm": numbers}
        return sim.init(problem.tanh_params(), data, key, hp), key

    evaluate, net = problem.evaluate(), problem.tanh_net
    shapes = problem.tanh_params()
    return Assembled(sim, data, TEST, evaluate, start, start, net, shapes)


def objective(made):
    """The test loss as a function of the numbers, without any rematerialisation."""

    @jax.jit
    def value(numbers):
        state, key = made.start(jax.random.key(0), numbers)
        state, _ = fm.rollout(made.sim, made.data, state, key, ROUNDS)
        return made.evaluate(state, made.stores)["test_loss"]

    return value


@float64
@pytest.mark.parametrize("name", thrifty(ALGORITHMS, OFTEN))
def test_both_modes_match_central_differences(name):
    """Else tuning by gradient would go astray."""
    made_up = made(name)
    numbers = jax.tree.map(jnp.asarray, spec_of(name).hp)
    forward, reverse = (
        differentiator(made_up, ROUNDS, "test_loss", mode=mode)(numbers)
        for mode in ("forward", "reverse")
    )
    value = objective(made_up)
    flat, tree_of = ravel_pytree(numbers)
    for i, away in enumerate(STEP * np.eye(flat.size)):
        up, down = value(tree_of(flat + away)), value(tree_of(flat - away))
        difference = (up - down) / (2 * STEP)
        for found in (forward, reverse):
            exact = ravel_pytree(found.gradient)[0][i]
            np.testing.assert_allclose(exact, difference, rtol=1e-4, atol=1e-8)
    assert abs(step_size(forward.gradient)) > 1e-6
    assert forward.value == pytest.approx(float(value(numbers)), rel=1e-12)
    np.testing.assert_allclose(forward.growth, reverse.growth, rtol=1e-9)


# ---- by name, with nothing said -----------------------------------------------------


def experiment(name, **options):
    """Two rounds of the catalog's algorithm on the toy population."""
    return fm.Experiment(
        algorithm=name,
        dataset={"train": problem.data(), "valid": TEST["test"]},
        model=fm.models.Model(
            lambda key, x: problem.tanh_params(), problem.tanh_net, problem.tanh_forward
        ),
        rounds=2,
        cohort=3,
        steps=2,
        batch_size=4,
        options=options,
    )


def default_numbers(name):
    """Every float of the algorithm by its name in an experiment."""
    return experiment(name).parts["algorithm"].spec.hp


@pytest.mark.parametrize("name", thrifty(ROWS, ("fedavg", "fedmos", "moon")))
def test_hypergrad_of_a_name_differentiates_all_its_numbers(name):
    """A user's first call gives a finite gradient with an entry per number."""
    found = fm.hypergrad(experiment(name))
    bare = {number.removeprefix("algorithm.") for number in found.gradient}
    assert bare == set(default_numbers(name))
    assert np.isfinite([found.value, found.norm]).all() and not found.unstable
    assert found.norm > 0
    assert found.mode == ("forward" if len(bare) <= 4 else "reverse")


@float64
@pytest.mark.parametrize("name", thrifty(ROWS, ("fedavg",)))
def test_hypergrad_of_a_name_is_the_slope_of_its_experiment(name):
    """The gradient is that of the loss which the same experiment reports."""
    base = experiment(name)
    lr, found = default_numbers(name)["lr"], fm.hypergrad(base)

    def reported(lr):
        one = dataclasses.replace(base, options={"algorithm.lr": lr})
        return one.run(progress=False).frame["valid_loss"].iloc[-1]

    h = 1e-4 * lr
    difference = (reported(lr + h) - reported(lr - h)) / (2 * h)
    exact = found.gradient.get("lr", found.gradient.get("algorithm.lr"))
    np.testing.assert_allclose(exact, difference, rtol=1e-4, atol=1e-7)
    assert found.value == pytest.approx(reported(lr), rel=1e-9)
    assert catalog.ALGORITHMS[name].spec().hp["lr"] == lr
