"""Samplers with work on the host, driven by `fm.run` alone."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine import host_updates
from fedjax_mos.types import Cohort, HostAssisted, HostUpdate, Sampler, Updated
from tests import problem

WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(1, 3)
)
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.3)
KEY, CLIENTS = jax.random.key(4), len(problem.SIZES)
NUMBERS = (problem.FEATURES + 1) * problem.CLASSES


def run(sim, state, rounds):
    return fm.run(sim, problem.data(), state, KEY, rounds, progress=False)


def start(sim):
    return sim.init(problem.softmax_params(), problem.data(), KEY)


@pytest.fixture(scope="module")
def clustered():
    """Clustered adaptive selection by hand: two rounds of warm-up, then clusters."""
    sampler = fm.spec(fm.samplers.clustered_adaptive, warm_up=2)
    return fm.simulation(AVERAGE, WORK, sampler, cohort=3)


def test_a_simulation_brings_its_host_along(clustered):
    """`fm.run` alone does the warm-up with everyone, the clusters, and their bits."""
    assert clustered.host_update.warm_up == 2 and clustered.warm_up is not None
    state, history = run(clustered, start(clustered), 4)
    each = np.diff(history["bits_up"], prepend=0) / (32 * NUMBERS)
    # Everyone, everyone, a gradient from everyone and the cohort, the cohort.
    assert each[:2].tolist() == [CLIENTS, CLIENTS]
    assert CLIENTS < each[2] <= CLIENTS + 3 and each[3] <= 3
    first = start(clustered).sampler.order
    assert sorted(state.sampler.order.tolist()) == sorted(first.tolist())
    assert state.sampler.order.tolist() != first.tolist()


def test_host_work_survives_a_pause(clustered):
    """What the host does before a round depends on the round alone: 3 + 1 is 4."""
    whole, history = run(clustered, start(clustered), 4)
    half, first = run(clustered, start(clustered), 3)
    resumed, second = run(clustered, half, 1)
    chex.assert_trees_all_close(whole, resumed, rtol=1e-6)
    total = first["bits_up"].iloc[-1] + second["bits_up"].iloc[-1]
    assert history["bits_up"].iloc[-1] == total


def test_an_own_sampler_may_work_on_the_host():
    """A HostAssisted of one's own chooses what `compute` put into its state."""

    def sample(chosen, view, key):
        return Cohort(chosen[None], jnp.ones(1), jnp.ones(1, bool)), chosen

    def compute(data, state):
        return Updated(state.round % CLIENTS, bits_up=7, bits_down=1)

    made = HostAssisted(
        Sampler(lambda view, key: jnp.int32(0), sample), HostUpdate(compute, every=2)
    )
    sim = fm.simulation(AVERAGE, WORK, made)

    def report(state, info):
        return {"chosen": info.cohort.ids[0]}

    _, history = fm.run(
        sim, problem.data(), start(sim), KEY, 5, report=report, progress=False
    )
    assert history["chosen"].tolist() == [0, 0, 2, 2, 4]
    own = history["bits_up"] - 32 * NUMBERS * history["round"]
    assert own.tolist() == [7, 7, 14, 14, 21]


def test_stops():
    """The host is visited after the warm-up and at multiples of `every`, never else."""
    never = HostUpdate(None, every=None, warm_up=3)
    often = HostUpdate(None, every=2, warm_up=3)

    def stops(update, last):
        """Each after the one before."""
        found = [host_updates.next_stop(update, 0, last)]
        while found[-1] < last:
            found.append(host_updates.next_stop(update, found[-1], last))
        return found

    assert stops(never, last=6) == [3, 6]
    assert stops(often, last=7) == [3, 4, 6, 7]
    assert stops(None, last=7) == [7]


def steered(tools, *, first: float = 0.0):
    """A sampler whose host update chooses the client that a number says."""

    def sample(state, view, key):
        cohort = fm.types.Cohort(state[None], jnp.ones(1), jnp.ones(1, bool))
        return cohort, state

    def compute(data, state):
        return fm.types.Updated(jnp.asarray(round(float(first)), jnp.int32))

    def always(view, key):
        return jnp.zeros((), jnp.int32)

    warm = fm.types.Sampler(always, sample)
    update = HostUpdate(compute, warm_up=1, warm=warm)
    return fm.types.HostAssisted(fm.types.Sampler(always, sample), update)


def test_every_lane_is_updated_with_its_own_numbers():
    """A host update sees the numbers of its simulation, not those of the first one."""
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg), problem.work(), fm.spec(steered), cohort=1
    )
    keys = jax.random.split(KEY, 2)

    def begin(number, key):
        hp = {"sampler": {"first": number}}
        return sim.init(problem.tanh_params(), problem.data(), key, hp)

    states = jax.vmap(begin)(jnp.array([2.0, 4.0]), keys)
    state, _ = fm.run(sim, problem.data(), states, keys, 3, progress=False)
    assert state.sampler.tolist() == [2, 4]
