"""Hyperparameters can be differentiated: against central differences.

Meaningful in float64 only: tests/float64.py runs this file in its own process.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.contracts import harness
from tests.contracts.harness import thrifty
from tests.contracts.table import ALGORITHMS, KINDS

STEP = 1e-6
OFTEN = (*KINDS, "fedams", "feddyn", "fedcm", "stem", "fedacg", "fedntd")


@pytest.mark.skipif(not jax.config.jax_enable_x64, reason="needs float64")
@pytest.mark.parametrize("name", thrifty(ALGORITHMS, OFTEN))
def test_hypergradients_match_central_differences(name):
    """Else tuning by gradient would go astray."""
    row, data, key = ALGORITHMS[name], problem.data(), jax.random.key(3)
    sim = harness.simulate(name, "epochs")

    @jax.jit
    def objective(hp):
        state = sim.init(problem.tanh_params(), data, key, {"algorithm": hp})
        state, _ = fm.rollout(sim, data, state, key, 3, remat=True)
        test = {"test": fm.federate(*problem.arrays())}
        return problem.evaluate()(state.server.params, test)["test_loss"]

    hp = {k: jnp.asarray(v) for k, v in row.hp.items()}
    gradient = jax.grad(objective)(hp)
    for number in row.hp:
        up = objective(hp | {number: hp[number] + STEP})
        down = objective(hp | {number: hp[number] - STEP})
        difference = 0.0 if number in row.piecewise else (up - down) / (2 * STEP)
        np.testing.assert_allclose(gradient[number], difference, rtol=1e-5, atol=1e-8)
    assert abs(gradient["lr"]) > 1e-6  # the objective does depend on something
