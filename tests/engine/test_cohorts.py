"""Who took part, round by round, against the rounds themselves."""

from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.engine.cohorts import split_cohorts
from tests import problem

pytestmark = pytest.mark.thorough

KEY = jax.random.key(9)
ROUNDS = 6
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.1)
COLUMNS = ["client", "weight", "bits_up", "bits_down", "local_loss"]


@cache
def simulate():
    """Two of six clients or so: a random number, the other slots are dead."""
    sampler = fm.spec(fm.samplers.bernoulli)
    return fm.simulation(AVERAGE, problem.work(), sampler, cohort=2)


def start(key=KEY):
    return simulate().init(problem.tanh_params(), problem.data(), key)


@cache
def ran():
    """The frame of a run with the report, and the traced rounds of the same run."""
    sim, data, state = simulate(), problem.data(), start()
    _, trace = jax.jit(lambda s: fm.rollout(sim, data, s, KEY, ROUNDS))(state)
    report = fm.report_cohort
    _, frame = fm.run(sim, data, state, KEY, ROUNDS, report=report, progress=False)
    return frame, jax.device_get(trace.info)


def rows_of(info):
    """Round by round and slot by slot, without those that are dead."""
    return [
        (
            t + 1,
            info.cohort.ids[t, m],
            info.cohort.weights[t, m],
            info.bits_up[t, m],
            info.bits_down[t, m],
            info.slots["loss"][t, m],
        )
        for t, m in np.argwhere(info.cohort.mask)
    ]


def test_cohorts_are_those_of_the_rounds():
    """One row per round and live slot, with weight, bits and what it measured."""
    frame, info = ran()
    rest, cohorts = split_cohorts(frame)
    columns = ["round", *COLUMNS]
    assert set(cohorts) == set(columns)
    np.testing.assert_allclose(cohorts[columns], rows_of(info), rtol=1e-5)
    assert cohorts["client"].dtype.kind == "i"
    assert not any(str(name).startswith("cohort_") for name in rest)
    assert rest["round"].tolist() == [*range(1, ROUNDS + 1)]


def test_dead_slots_do_not_appear():
    """Rounds have as many rows as clients that took part, none of which is twice."""
    _, cohorts = split_cohorts(ran()[0])
    live = ran()[1].cohort.mask
    assert not live.all()
    assert cohorts.groupby("round").size().tolist() == live.sum(axis=1).tolist()
    assert not cohorts.duplicated(["round", "client"]).any()


def test_bits_add_up_to_the_history():
    """The bits of a round's clients are what the round adds; losses have its mean."""
    rest, cohorts = split_cohorts(ran()[0])
    groups = cohorts.groupby("round")
    for name in ("bits_up", "bits_down"):
        total = groups[name].sum().cumsum()
        assert total.tolist() == rest[name].tolist()
    np.testing.assert_allclose(groups["local_loss"].mean(), rest["local_loss"])


def test_lanes_are_told_apart():
    """Every lane has the cohorts of its own run."""
    sim, data = simulate(), problem.data()
    keys = jax.random.split(KEY, 3)
    states = [start(key) for key in keys]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    options = {"report": fm.report_cohort, "progress": False}
    _, both = fm.run(sim, data, stacked, keys, ROUNDS, **options)
    rest, cohorts = split_cohorts(both)
    assert set(cohorts) == {"lane", "round", *COLUMNS}
    assert rest["lane"].nunique() == 3 and len(rest) == 3 * ROUNDS
    for lane in range(3):
        alone = fm.run(sim, data, states[lane], keys[lane], ROUNDS, **options)[1]
        expected = split_cohorts(alone)[1]
        found = cohorts[cohorts["lane"] == lane].drop(columns="lane")
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_frame_without_a_report_stays():
    """There is nothing to split off."""
    frame = pd.DataFrame({"round": [1, 2], "local_loss": [1.0, 0.5]})
    rest, cohorts = fm.split_cohorts(frame)
    assert rest is frame and cohorts is None
