"""Folders of sweeps: what they depend on, and that others are refused."""

import dataclasses
import json

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.sweeps import ledger
from fedjax_mos.lab.sweeps.ledger import claim, plan_of
from tests.lab.tiny import TINY


def written(path, value):
    x, y = np.full((12, 3), value, np.float32), np.arange(12) % 2
    np.savez(path, x_train=x, y_train=y, x_test=x, y_test=y)
    return dataclasses.replace(TINY, dataset=f"npz:{path}", clients=3)


def test_the_data_of_every_run_are_in_the_plan(tmp_path):
    """Pieces of a data set that changed, beside those of its earlier content."""
    runs = [written(tmp_path / f"{name}.npz", 0) for name in "ab"]
    before = plan_of("sweep", TINY, runs)["data"]
    assert len(before) == 3 and before[1] == before[2] != before[0]
    written(tmp_path / "b.npz", 1)
    now = plan_of("sweep", TINY, runs)["data"]
    assert now[:2] == before[:2] and now[2] != before[2]


def test_runs_on_the_same_data_are_hashed_once(monkeypatch):
    """Thousands of lanes, each of which would hash all data."""
    runs = [dataclasses.replace(TINY, seed=i, options={"lr": 0.1}) for i in range(9)]
    calls = []
    monkeypatch.setattr(ledger, "data_hash", lambda one: calls.append(one))
    plan_of("sweep", TINY, runs)
    assert len(calls) == 1


@pytest.mark.thorough
def test_schedules_that_look_alike_are_told_apart(tmp_path):
    """A table abbreviates what the folder's runs depend on."""
    call = {"out": tmp_path, "progress": False}
    three = dataclasses.replace(TINY, rounds=3)
    fm.sweep(three, lr=[fm.Schedule([0.3, 0.1, 0.2])], **call)
    with pytest.raises(ValueError, match="configurations"):
        fm.sweep(three, lr=[fm.Schedule([0.3, 0.5, 0.2])], **call)


def test_versions_are_recorded(tmp_path, monkeypatch, capsys):
    """Pieces of two versions in one folder, and nothing that says so."""
    plan = plan_of("sweep", TINY)
    claim(tmp_path, plan | {"version": "0.1"}, "pieces")
    for _ in range(2):
        claim(tmp_path, plan, "pieces")
        assert "version 0.1" in capsys.readouterr().err
        stored = json.loads((tmp_path / "plan.json").read_text())
        assert stored["version"] == "0.1"
        assert stored["resumed_with"] == [ledger.__version__]


@pytest.mark.parametrize("kind", ["sweep", "search", "tuning"])
def test_folders_from_before_a_field_are_of_the_same_plan(kind, tmp_path):
    """Days of pieces that a new version refuses, because it has one field more."""
    claim(tmp_path, plan_of(kind, TINY), "pieces")
    path = tmp_path / "plan.json"
    stored = json.loads(path.read_text())
    del stored["experiment"]["rows"], stored["experiment"]["precision"]
    path.write_text(json.dumps(stored))
    claim(tmp_path, plan_of(kind, TINY), "pieces")
    other = dataclasses.replace(TINY, rows="disk")
    with pytest.raises(ValueError, match="experiment.rows was auto and is disk"):
        claim(tmp_path, plan_of(kind, other), "pieces")
