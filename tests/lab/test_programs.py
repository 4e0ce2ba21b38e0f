"""Experiments of one structure share what was compiled for the first of them."""

import dataclasses
from contextlib import contextmanager

import jax
import numpy as np
import pytest

import fedjax_mos as fm

SMALL = fm.Experiment(
    algorithm="fedavg", sampler="ucs", model="logistic", clients=10, cohort=3, rounds=3
)
_EVENTS = ("jaxpr_trace_duration", "backend_compile_duration")


@contextmanager
def counted():
    """What is traced and compiled meanwhile."""
    seen = []

    def listen(event, duration, **_):
        if event.endswith(_EVENTS):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def run(**changes):
    return dataclasses.replace(SMALL, **changes).run(progress=False)


@pytest.fixture(autouse=True)
def _few_programs():
    """Nothing is dropped between these tests, which count what is compiled."""


@pytest.fixture(scope="module")
def first():
    with counted() as seen:
        result = run()
    assert seen  # the listener hears
    return result


@pytest.mark.parametrize(
    "changes",
    [
        {"options": {"lr": 0.2}},
        {"seed": 5},
        {"rounds": 7},
        {"eval_every": 2},
        {"options": {"lr": 0.2, "server_lr": 0.5}, "seed": 3, "rounds": 12},
    ],
    ids=str,
)
def test_other_numbers_trace_and_compile_nothing(first, changes):
    """An edit in a notebook is answered in the time of its rounds."""
    with counted() as seen:
        run(**changes)
    assert not seen


def test_numbers_are_the_experiments_own(first):
    """A shared program gets this experiment's numbers, not the first one's."""
    other = run(options={"lr": 0.3})
    assert float(other.state.hp["algorithm"]["lr"]) == pytest.approx(0.3)
    assert other.frame.train_loss.iloc[-1] != first.frame.train_loss.iloc[-1]
    again = run()
    np.testing.assert_array_equal(again.frame.train_loss, first.frame.train_loss)


def test_members_of_a_comparison_share(first):
    """Two members that differ in a number compile once."""
    members = {
        str(lr): dataclasses.replace(SMALL, options={"lr": lr}) for lr in (0.1, 0.3)
    }
    fm.compare({"0.1": members["0.1"]}, seeds=2, progress=False)
    with counted() as seen:
        fm.compare({"0.3": members["0.3"]}, seeds=2, progress=False)
    assert not seen


def test_another_structure_does_not_share(first):
    """A static option makes another program, with its own results."""
    with counted() as seen:
        other = run(batch_size=4)
    assert seen
    assert other.frame.train_loss.iloc[-1] != first.frame.train_loss.iloc[-1]


def test_the_low_level_interface_has_the_experiments_own_numbers(first):
    """`build().sim` starts from this experiment's numbers, not the first one's."""
    made = dataclasses.replace(SMALL, options={"lr": 0.123}).build()
    assert made.sim.hp["algorithm"]["lr"] == pytest.approx(0.123)
    state = made.sim.init(first.params, made.data, jax.random.key(0))
    assert float(state.hp["algorithm"]["lr"]) == pytest.approx(0.123)
    with pytest.raises(ValueError, match="no hyperparameter algorithm.rate"):
        made.start(jax.random.key(0), {"algorithm": {"rate": 0.1}})
