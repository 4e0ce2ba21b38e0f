"""The numbers that a state carries: replaced, checked, scheduled."""

import re
from functools import cache, partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine.hyperparameters import decaying
from tests import problem

LOSS = fm.losses.mean_loss(problem.softmax_net)
PLAN = fm.plans.with_replacement(2, 3)
WORK = fm.local_work(LOSS, PLAN)
MOS = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
KEY = jax.random.key(4)


@cache
def simulate():
    spec = fm.spec(fm.algorithms.fedmos, first_batch="step", **MOS)
    return fm.simulation(spec, WORK, fm.spec(fm.samplers.adaptive), cohort=3)


@cache
def averaging():
    spec = fm.spec(fm.algorithms.fedavg, lr=0.3, server_lr=1.0)
    return fm.simulation(spec, WORK, fm.spec(fm.samplers.adaptive), cohort=3)


def start(sim=None, hp=None):
    sim = simulate() if sim is None else sim
    return sim.init(problem.softmax_params(), problem.data(), KEY, hp)


def test_a_schedule_is_one_value_per_round():
    """A schedule shifted by a round, or ended by zeros, trains something else."""
    rates, data = [0.3, 0.15, 0.9, 0.2], problem.data()
    state = start(averaging(), {"algorithm": {"lr": fm.Schedule(rates)}})
    half, _ = fm.run(averaging(), data, state, KEY, 2, progress=False)
    scheduled, _ = fm.run(averaging(), data, half, KEY, 2, progress=False)
    by_hand, stepper = start(averaging()), jax.jit(averaging().step)
    for t, rate in enumerate(rates):
        algorithm = by_hand.hp["algorithm"] | {"lr": jnp.float32(rate)}
        by_hand = by_hand._replace(hp=by_hand.hp | {"algorithm": algorithm})
        by_hand, _ = stepper(data, by_hand, jax.random.fold_in(KEY, t))
    chex.assert_trees_all_close(
        scheduled.server.params, by_hand.server.params, rtol=1e-5, atol=1e-6
    )
    # Where a schedule ends a run ends: round 5 has no value.
    with pytest.raises(ValueError, match="schedule algorithm.lr .* 5 rounds: got 4"):
        fm.run(averaging(), data, scheduled, KEY, 1, progress=False)
    # The step size of `decaying` in round t is lr * round_decay**t.
    sim = halving(fm.spec(fm.algorithms.fedavg, lr=0.3, server_lr=1.0))
    assert sim.hp["decay"] == {"round_decay": 0.5}
    decayed, _ = fm.run(sim, data, start(sim), KEY, 2, progress=False)
    chex.assert_trees_all_close(
        decayed.server.params, half.server.params, rtol=1e-5, atol=1e-6
    )


def halving(algorithm):
    decay = fm.spec(decaying, round_decay=0.5)
    sampler = fm.spec(fm.samplers.adaptive)
    return fm.simulation(algorithm, WORK, sampler, cohort=3, decay=decay)


def test_round_decay_needs_a_step_size():
    """A decay of the step size is refused where the algorithm has no `lr`."""

    def other(work, *, rate=0.1):
        return fm.algorithms.fedavg(work, lr=rate)

    with pytest.raises(ValueError, match="called lr: this one has rate"):
        start(halving(fm.spec(other)))


def test_init_replaces_only_what_it_is_given():
    """A partial change must not reset the other numbers."""
    hp = start(averaging(), {"algorithm": {"lr": 0.7}}).hp
    assert float(hp["algorithm"]["lr"]) == np.float32(0.7)
    assert float(hp["algorithm"]["server_lr"]) == 1.0
    assert averaging().hp["algorithm"]["lr"] == 0.3


def test_unknown_names_list_the_known():
    """A typo must not silently leave the default in place."""
    with pytest.raises(ValueError, match=r"algorithm\.rate.*lr, server_lr"):
        start(averaging(), {"algorithm": {"rate": 0.1}})
    with pytest.raises(ValueError, match="algorihm.*algorithm, local, sampler"):
        start(averaging(), {"algorihm": {"lr": 0.1}})


@pytest.mark.parametrize(
    ("name", "value", "interval"),
    [
        ("lr", 0.0, "(0, inf)"),
        ("lr", -1.5, "(0, inf)"),
        ("server_momentum", 1.5, "[0, 1]"),
        ("storm", -0.25, "[0, 1]"),
        ("prox", -0.5, "[0, inf)"),
    ],
)
def test_a_number_out_of_range_is_named(name, value, interval):
    """The message must say which argument, what it got and what is allowed."""
    message = re.escape(f"algorithm.{name} must lie in {interval}: got {value}")
    with pytest.raises(ValueError, match=message):
        start(hp={"algorithm": {name: value}})


def test_schedules_are_checked_value_by_value():
    """One bad round in a schedule must not hide behind the good ones."""
    with pytest.raises(ValueError, match=r"algorithm\.lr must lie in"):
        start(hp={"algorithm": {"lr": fm.Schedule([0.1, -0.1])}})
    with pytest.raises(ValueError, match=r"algorithm\.lr must be a finite number"):
        start(hp={"algorithm": {"lr": float("nan")}})


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_every_float_is_a_leaf_of_the_state(dtype):
    """Sweeps and hypergradients reach only leaves; a wrong dtype promotes the model."""
    numbers = {
        "clip": 1.0,
        "weight_decay": 0.1,
        "epoch_decay": 0.9,
        "scale": {"w": 1.0, "b": np.float64(2.0)},
    }
    work = fm.spec(partial(fm.local_work, LOSS, PLAN), micro_batch=4, **numbers)
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedmos, first_batch=4, **MOS),
        work,
        fm.spec(fm.samplers.adaptive),
        cohort=3,
    )
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), problem.softmax_params())
    state = sim.init(params, problem.data(), KEY)
    assert set(state.hp["algorithm"]) == set(MOS)
    assert set(state.hp["local"]) == set(numbers)
    leaves = jax.tree.leaves(state.hp)
    assert len(leaves) == 9 and all(leaf.dtype == dtype for leaf in leaves)
    assert all(isinstance(leaf, jax.Array) and leaf.shape == () for leaf in leaves)
    after, _ = jax.eval_shape(sim.step, problem.data(), state, KEY)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
