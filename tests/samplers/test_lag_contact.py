"""LAG's server rule: who is contacted, and on which servers it can work."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.samplers.population import Server, tools

KEY = jax.random.key(0)


class Lag(NamedTuple):
    params: jax.Array
    threshold: jax.Array


def see(params, threshold, round):
    server = Lag(jnp.asarray(params), jnp.asarray(threshold))
    return fm.types.SamplerView(jnp.int32(round), server, problem.data())


@pytest.mark.parametrize(
    "smoothness", [2.0, (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)], ids=["one", "each"]
)
def test_contact_is_the_rule(smoothness):
    """Contact m iff L_m^2 |x^_m - x|^2 > threshold, with x^_m of its last contact."""
    L = np.broadcast_to(np.array(smoothness), 6)
    sampler = fm.samplers.lag_contact(tools(6), smoothness=jnp.asarray(smoothness))
    sample, state = jax.jit(sampler.sample), sampler.init(see([0.0] * 3, 1.0, 0), KEY)
    at_upload, seen = np.zeros((6, 3)), []
    for t, far in enumerate([0.0, 0.3, 0.3, 0.6, 2.0, 2.1]):
        x = np.full(3, far, np.float32)
        cohort, state = sample(state, see(x, 1.0, t), KEY)
        moved = ((at_upload - x) ** 2).sum(axis=1)
        contacted = (L**2 * moved > 1.0) | (t == 0)
        np.testing.assert_array_equal(cohort.mask, contacted)
        at_upload[contacted] = x
        np.testing.assert_allclose(state, at_upload)
        seen.append(int(contacted.sum()))
    assert seen[0] == 6 and 0 < sum(seen[1:]) < 30
    # One L for all: all are contacted or none. L = 0 is never contacted again.
    assert (set(seen) == {0, 6}) == (np.ptp(L) == 0)
    np.testing.assert_allclose(cohort.weights, 1 / 6)


def test_an_array_of_smoothness_is_a_leaf():
    """One number per worker must be sweepable like one number for all."""
    each = jnp.arange(1.0, 7.0)
    made = fm.spec(fm.samplers.lag_contact, smoothness=each)
    assert made.static == {} and made.hp["smoothness"] is each
    with pytest.raises(ValueError, match=r"smoothness must lie in \[0, inf\)"):
        fm.spec(fm.samplers.lag_contact, smoothness=-each)


def test_a_server_without_a_threshold_is_refused():
    """Any other algorithm would fail deep inside the round, or never be contacted."""
    sampler, data = fm.samplers.lag_contact(tools(6)), problem.data()
    view = fm.types.SamplerView(jnp.int32(0), Server(jnp.zeros(3)), data)
    with pytest.raises(ValueError, match="threshold .* for lag_contact: got Server wi"):
        sampler.init(view, KEY)
    local = fm.local_work(
        fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(1, 3)
    )
    sim = fm.simulation(fm.spec(fm.algorithms.fedavg), local, sampler)
    with pytest.raises(ValueError, match="must be one with a threshold"):
        sim.init(problem.softmax_params(), data, KEY)
