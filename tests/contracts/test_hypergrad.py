"""Both modes of differentiation through twenty rounds, against central differences.

Meaningful in float64 only: tests/float64.py runs this file in its own process.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.hypergradients.hypergrad import differentiator
from fedjax_mos.lab.assembled import Problem
from tests import problem
from tests.contracts import harness
from tests.contracts.harness import thrifty
from tests.contracts.table import ALGORITHMS

ROUNDS, STEP = 20, 1e-6
OFTEN = ("fedavg",)
TEST = {"test": fm.federate(*problem.arrays())}


def made(name):
    """The row `name` as a problem whose `start` takes the algorithm's numbers."""
    sim, data = harness.simulate(name), problem.data()

    def start(key, numbers=None):
        hp = numbers and {"algorithm": numbers}
        return sim.init(problem.tanh_params(), data, key, hp), key

    return Problem(sim, data, TEST, problem.evaluate(), start, problem.tanh_net)


def objective(problem):
    """The test loss as a function of the numbers, without any rematerialisation."""

    @jax.jit
    def value(numbers):
        state, key = problem.start(jax.random.key(0), numbers)
        state, _ = fm.rollout(problem.sim, problem.data, state, key, ROUNDS)
        return problem.evaluate(state.server.params, problem.stores)["test_loss"]

    return value


@pytest.mark.skipif(not jax.config.jax_enable_x64, reason="needs float64")
@pytest.mark.parametrize("name", thrifty(ALGORITHMS, OFTEN))
def test_both_modes_match_central_differences(name):
    """Else tuning by gradient would go astray."""
    made_up, row = made(name), ALGORITHMS[name]
    numbers = {k: jnp.asarray(v) for k, v in row.hp.items()}
    forward, reverse = (
        differentiator(made_up, ROUNDS, "test_loss", mode=mode)(numbers)
        for mode in ("forward", "reverse")
    )
    value = objective(made_up)
    for number in row.hp:
        up = value(numbers | {number: numbers[number] + STEP})
        down = value(numbers | {number: numbers[number] - STEP})
        difference = (up - down) / (2 * STEP)
        for found in (forward, reverse):
            exact = found.gradient[number]
            np.testing.assert_allclose(exact, difference, rtol=1e-4, atol=1e-8)
    assert abs(forward.gradient["lr"]) > 1e-6
    assert forward.value == pytest.approx(float(value(numbers)), rel=1e-12)
    np.testing.assert_allclose(forward.growth, reverse.growth, rtol=1e-9)
