"""An algorithm that remembers what every client sent last."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm
from fedjax_mos.components import then
from fedjax_mos.engine.tracking import tracked
from tests import problem

WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
KEY, N = jax.random.key(1), len(problem.SIZES)


def test_tracked_keeps_the_last_message():
    """y_i - x of those who took part, zero for others; training as ever."""
    data, params = problem.data(), problem.softmax_params()
    cohort = problem.fixed_cohort([4, 1])
    for make in (fm.algorithms.fedavg, fm.algorithms.scaffold):
        plainly = fm.spec(make, lr=0.3, server_lr=1.0)
        followed = then(plainly, tracked)
        sims = [fm.simulation(a, WORK, cohort) for a in (followed, plainly)]
        (state, info), (plain, other) = (
            jax.jit(sim.step)(data, sim.init(params, data, KEY), KEY) for sim in sims
        )
        last = state.clients.mine.last["w"]
        assert (abs(last).sum(axis=(1, 2)) > 0).tolist() == [
            i in (1, 4) for i in range(N)
        ]
        np.testing.assert_array_equal(info.bits_up, other.bits_up)
        for a, b in zip(
            jax.tree.leaves(state.server), jax.tree.leaves(plain.server), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        mean = jnp.tensordot(info.cohort.weights, last[info.cohort.ids], 1)
        np.testing.assert_allclose(
            state.server.params["w"] - params["w"], mean, rtol=1e-4, atol=1e-6
        )
