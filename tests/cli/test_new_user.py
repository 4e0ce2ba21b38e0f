"""What people new to the command line type first, and what they are told."""

import inspect
import json
import re

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog, trackers
from fedjax_mos.lab.hypergradients.tuned import Tuned
from tests.cli.test_cli import TINY, command

FEW = [*TINY, "--rounds", "2", "--model", "logistic"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "--lr", "0.1"], "--lr is no option of run: .*--set lr=VALUE"),
        (["compare", "--lr=0.1"], "--lr is no option of compare: .*--set lr=VALUE"),
        (
            ["run", "--round", "3"],
            r"--round is no option of run: did you mean --rounds\?",
        ),
        (["run", "--seed-s", "3"], r"did you mean --seeds?\?"),
        (
            ["plot", "x", "--kin", "curves"],
            r"--kin is no option of plot: did you mean --kind",
        ),
        (["compare", "--algorithms", "fedavg,fedprox"], "separated by spaces"),
        (["compare", "--algorithms", "fedavg,fedprox:lr=1"], "separated by spaces"),
        (["sweep", "--lr", "0.1,0.3"], "by --over lr=VALUES; .*by --set lr=VALUE"),
        (["search", "--lr", "0.1,0.3"], "by --over lr=VALUES"),
        (["sweep", "--set", "lr=0.1,0.3"], "got 2; --over lr=0.1,0.3 tries one by one"),
        (["search", "--set", "lr=0.1,0.3"], "--over lr=0.1,0.3 tries one by one"),
        (["run", "lr=0.1"], "lr=0.1 must stand behind --set: --set lr=0.1"),
        (["run", "--rounds", "3", "lr=0.1"], "must stand behind --set: --set lr=0.1"),
        (["run", "--set", "lr=0.1", "prox=1"], "must stand behind --set: --set prox=1"),
        (["run", "--sampler", "uniform"], r"did you mean ucs\?"),
        (["run", "--sampler", "Random"], r"did you mean ucs\?"),
        (["run", "--sampler", "multinomial"], r"did you mean md\?"),
        (["run", "--uplink", "topk"], r"did you mean feedback\?"),
        (["run", "--track", "wandbb"], r"did you mean wandb\?"),
        (["run", "--seeds", "0"], "seeds must be at least 1: got 0"),
        (["run", "--uplink", "compressed", "--set", "codec=topk"], "codec must be"),
    ],
)
def test_what_to_write_instead(words, told, monkeypatch):
    """Before anything is computed, with exit status 2."""
    monkeypatch.setattr(fm.Experiment, "build", lambda *a, **k: pytest.fail("built"))
    done = command(*words)
    assert done.code == 2 and not done.out
    assert re.search(told, done.err), done.err


@pytest.mark.parametrize("words", [["run"], ["compare"]])
def test_trackers_that_are_not_installed(words, monkeypatch):
    """One line, and nothing is built."""
    monkeypatch.setattr(fm.Experiment, "build", lambda *a, **k: pytest.fail("built"))
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    done = command(*words, "--quiet", "--track", "wandb")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert "pip install '.[wandb]'" in line


def test_run_takes_seeds_tracks_and_is_quiet(tmp_path):
    """Several seeds as one program; nothing on the error stream."""
    out = tmp_path / "run"
    words = ["--seeds", "2", "--seed", "3", "--track", "csv", "--quiet", "--out", out]
    done = command("run", *FEW, *words)
    assert done.code == 0 and not done.err
    assert fm.read(out).frame["seed"].unique().tolist() == [3, 4]
    assert json.loads((out / "track.json").read_text())["told"] == {"csv": 2}
    again = command("run", "--config", out / "config.json", "--seeds", "2")
    assert again.code == 2 and "config says everything" in again.err


@pytest.mark.thorough
def test_personal_models_are_pointed_to(tmp_path):
    """Their columns are in no table unless they are asked for."""
    out = tmp_path / "run"
    words = ["--held-out", "0.2", "--per-client", "personal", "--out", out]
    done = command("run", *FEW, *words)
    line = next(t for t in done.out.splitlines() if t.startswith("of personal models"))
    again = command(*line.partition("fedjax-mos ")[2].split())
    assert again.code == 0 and "personal" in again.out


@pytest.mark.thorough
def test_tune_announces_its_sweep(tmp_path):
    """Minutes in which nothing seems to happen; schedules are told as such."""
    words = ["--schedule", "lr=segments:2", "--candidates", "2", "--updates", "2"]
    done = command("tune", "--algorithm", "fedavg", *FEW, *words, "--out", tmp_path)
    assert done.code == 0
    assert "--no-versus-sweep leaves it out" in done.err
    assert "lr is a schedule, shown by its mean" in done.out
    quiet = command("resume", tmp_path, "--quiet")
    assert quiet.code == 0 and not quiet.err
    found = fm.read(tmp_path)
    assert isinstance(found, Tuned) and found.text() in done.out


def test_columns_are_said_once(tmp_path):
    """A guess at what a column is for trains as well as the right one."""
    rows = np.arange(40)
    table = pd.DataFrame({"site": rows % 4, "x": rows / 3, "label": rows % 2})
    table.to_csv(path := tmp_path / "some.csv", index=False)
    words = ["--dataset", path, *FEW, "--out"]
    done = command("run", *words, tmp_path / "a")
    told = "features: site, x; clients: drawn (--set client=COLUMN"
    assert done.code == 0 and done.err.count(told) == 1
    quiet = command("run", *words, tmp_path / "b", "--quiet")
    assert quiet.code == 0 and not quiet.err


def test_variants_are_told_apart():
    """Ten rows of `list` with one sentence."""
    for table in ("algorithms", "samplers", "channels"):
        rows = catalog.listing()[table]
        told = [(r["description"], str(r["options"]), str(r["channels"])) for r in rows]
        assert len({t[0] for t in told}) == len({*told}), table


@pytest.mark.parametrize("function", [fm.federate, fm.arrays, fm.selection])
def test_help_is_short(function):
    """Twenty lines of what an array may be made from."""
    text = str(inspect.signature(function))
    assert "ArrayLike" in text and len(text) < 500
