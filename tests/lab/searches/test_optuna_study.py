"""Studies of Optuna: batches are lanes, values are the experiments' own."""

import dataclasses
import sys

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.searches import optuna_study as module
from tests.lab.tiny import TINY

# CI installs Optuna for these only.
pytestmark = pytest.mark.thorough
BASE = dataclasses.replace(TINY, rounds=4, eval_every=4)
OVER = {"lr": fm.Range(0.01, 1.0, log=True), "server_lr": fm.Range(0.5, 2.0)}


def study(where, trials, batch, **options):
    given = {"progress": False, "seeds": 1, "rungs": 2, "eta": 4} | OVER | options
    return fm.optuna_study(BASE, where, trials=trials, batch=batch, **given)


@pytest.fixture
def optuna():
    found = pytest.importorskip("optuna", reason="an extra that is not installed")
    found.logging.set_verbosity(found.logging.ERROR)
    return found


class Killed(BaseException):
    """As if the process had ended."""


def test_interrupted_and_continued(tmp_path, optuna, programs, monkeypatch):
    """Trials that are lost or run twice, a second compilation, or another's value."""
    searched, calls = module.search, []

    def deadly(*args, **named):
        calls.append(args[1])
        if len(calls) == 3:
            raise Killed
        return searched(*args, **named)

    monkeypatch.setattr(module, "search", deadly)
    with pytest.raises(Killed):
        study(tmp_path, 64, 16)
    done = study(tmp_path, 64, 16)
    assert len(calls) == 5 and calls[2] == calls[3]  # those under way come first
    assert programs() == 1
    states = optuna.trial.TrialState
    complete = [t for t in done.trials if t.state == states.COMPLETE]
    pruned = [t for t in done.trials if t.state == states.PRUNED]
    assert (len(done.trials), len(complete), len(pruned)) == (64, 16, 48)
    assert {tuple(t.intermediate_values) for t in complete} == {(1, 4)}
    assert {tuple(t.intermediate_values) for t in pruned} == {(1,)}
    for trial in complete[:3]:
        own = dataclasses.replace(BASE, options=trial.params).run(1, progress=False)
        wanted = own.frame["valid_accuracy"].iloc[-1]
        assert trial.value == pytest.approx(wanted, rel=1e-5)
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    again = optuna.load_study(study_name="fedjax_mos", storage=storage)
    assert again.best_value == max(t.value for t in complete)


def test_a_study_of_ones_own(optuna):
    """Choices, trials that are alike, and a sampler that the user chose."""
    sampler = optuna.samplers.RandomSampler(seed=0)
    own = optuna.create_study(direction="minimize", sampler=sampler)
    found = study(
        own, 6, 4, lr=[0.1, 0.2], server_lr=[1.0], metric="valid_loss", rungs=1
    )
    assert found is own and own.sampler is sampler and len(own.trials) == 6
    by_rate = {}
    for trial in own.trials:
        by_rate.setdefault(trial.params["lr"], set()).add(np.float32(trial.value))
    assert all(len(values) == 1 for values in by_rate.values())


def test_bad_input(tmp_path, optuna):
    """A mistake that is found after the first batch."""
    for named, words in (
        ({"trials": 0}, "trials must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"lr": [fm.models.logistic]}, "lr must be a Range, or a list"),
        ({"metric": "speed"}, "metric must be one of"),
    ):
        given = {"trials": 4, "batch": 2} | named
        with pytest.raises(ValueError, match=words):
            study(tmp_path / "a", **given)


def test_another_study_is_refused(tmp_path, optuna, monkeypatch):
    """Values of two experiments or metrics in one study, or a loss that is to rise."""

    def none(*args, **named):
        raise Killed

    monkeypatch.setattr(module, "search", none)
    with pytest.raises(Killed):
        study(tmp_path, 4, 2)
    other = dataclasses.replace(BASE, algorithm="fedprox")
    with pytest.raises(ValueError, match="one of the same study.*algorithm"):
        fm.optuna_study(other, tmp_path, trials=4, batch=2, seeds=1, **OVER)
    with pytest.raises(ValueError, match="one of the same study.*metric"):
        study(tmp_path, 4, 2, metric="valid_loss")
    with pytest.raises(ValueError, match="study must minimize valid_loss"):
        study(optuna.create_study(direction="maximize"), 4, 2, metric="valid_loss")


def test_without_optuna(tmp_path, monkeypatch):
    """A missing extra ends in a traceback."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[optuna\]'"):
        study(tmp_path, 4, 2)
