"""Hyperparameters can be differentiated: against central differences.

Meaningful in float64 only: tests/float64.py runs this file in its own process.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import fedjax_mos as fm
from tests import problem
from tests.contracts import harness
from tests.contracts.harness import thrifty
from tests.contracts.table import ALGORITHMS, KINDS, spec_of

STEP = 1e-6
OFTEN = (*KINDS, "fedams", "feddyn", "fedcm", "stem", "fedacg", "fedntd")


def step_size(gradient):
    """The derivative by the step size that clients take."""
    own = gradient.get("client_optimizer")
    return gradient["lr"] if own is None else own["learning_rate"]


@pytest.mark.skipif(not jax.config.jax_enable_x64, reason="needs float64")
@pytest.mark.parametrize("name", thrifty(ALGORITHMS, OFTEN))
def test_hypergradients_match_central_differences(name):
    """Else tuning by gradient would go astray."""
    data, key = problem.data(), jax.random.key(3)
    sim = harness.simulate(name, "epochs")
    flat, tree_of = ravel_pytree(jax.tree.map(jnp.asarray, spec_of(name).hp))

    @jax.jit
    def objective(numbers):
        hp = {"algorithm": tree_of(numbers)}
        state = sim.init(problem.tanh_params(), data, key, hp)
        state, _ = fm.rollout(sim, data, state, key, 3, remat=True)
        test = {"test": fm.federate(*problem.arrays())}
        return problem.evaluate()(state, test)["test_loss"]

    gradient = jax.grad(objective)(flat)
    for exact, away in zip(gradient, STEP * np.eye(flat.size), strict=True):
        difference = (objective(flat + away) - objective(flat - away)) / (2 * STEP)
        np.testing.assert_allclose(exact, difference, rtol=1e-5, atol=1e-8)
    # the objective does depend on something
    assert abs(step_size(tree_of(gradient))) > 1e-6
