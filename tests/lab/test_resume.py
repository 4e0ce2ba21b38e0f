"""Folders of runs: claimed at the start, resumed, repeated, never mixed up."""

import dataclasses
import json
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.engine import run as loop
from fedjax_mos.engine.history import History
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab.run_folder import RunFolder, check_data, is_empty, repeated
from tests.lab.tiny import TINY

LONG = dataclasses.replace(TINY, rounds=23, eval_every=4)
OTHER = dataclasses.replace(LONG, algorithm="scaffold")


@pytest.fixture(autouse=True)
def _visits_of_ten(monkeypatch):
    """The same visits on every machine."""
    monkeypatch.setattr(loop.Pace, "rounds", lambda self: 10)


class Death(BaseException):
    """The process ends here."""


def ended(monkeypatch, after, call):
    """`call` in a process that ends after so many blocks of rounds."""
    add, count = History.add, iter(range(1, 1000))

    def last(self, *args):
        add(self, *args)
        if next(count) > after:
            raise Death

    with monkeypatch.context() as trap:
        trap.setattr(History, "add", last)
        with pytest.raises(Death):
            call()


def same(got, expected):
    """Histories are equal to the bit, also where one was read from a file."""
    ours, theirs = (one.frame.drop(columns="seconds") for one in (got, expected))
    ours = ours[list(theirs)].astype(theirs.dtypes)
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)


def start(folder, experiment=LONG, seeds=2):
    return experiment.run(seeds, out=folder, checkpoint_every=0, progress=False)


def test_the_same_call_resumes(tmp_path, monkeypatch):
    """A run that ended goes on in its folder, and a finished one is read."""
    ended(monkeypatch, 1, lambda: start(tmp_path))
    assert not json.loads((tmp_path / "config.json").read_text())["complete"]
    blocks = []
    advance = loop.advance
    monkeypatch.setattr(loop, "advance", lambda *a: blocks.append(1) or advance(*a))
    found = start(tmp_path)
    assert len(blocks) == 2  # of three
    same(found, LONG.run(2, progress=False))
    again = start(tmp_path)
    assert len(blocks) == 2 + 3  # the run above, which has no folder
    same(again, found)
    assert again.complete


@pytest.mark.thorough
def test_resume_reads_what_to_do_from_the_folder(tmp_path, monkeypatch):
    """`fm.resume` needs nothing else; more rounds may be asked for."""
    ended(monkeypatch, 2, lambda: start(tmp_path))
    same(fm.resume(tmp_path), LONG.run(2, progress=False))
    longer = fm.resume(tmp_path, rounds=31)
    expected = dataclasses.replace(LONG, rounds=31).run(2, progress=False)
    same(longer, expected)


@pytest.mark.thorough
def test_comparisons_resume_member_by_member(tmp_path, monkeypatch):
    """Finished members are read, the one under way goes on, the others follow."""
    members = {"a": LONG, "b": OTHER, "c": dataclasses.replace(LONG, cohort=3)}

    def compared():
        return fm.compare(members, 2, out=tmp_path, checkpoint_every=0, progress=False)

    ended(monkeypatch, 4, compared)  # in the second member
    assert not (tmp_path / "c").exists()
    assert list(fm.read(tmp_path).members) == ["a"]
    found = fm.resume(tmp_path)
    alone_ = fm.compare(members, 2, progress=False)
    assert list(found.members) == ["a", "b", "c"] and found.complete
    for name, result in alone_.members.items():
        same(found.members[name], result)
    with pytest.raises(ValueError, match="the same comparison.*a, b, c"):
        fm.compare({"a": LONG}, 2, out=tmp_path, progress=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cohort": 3}, "cohort was 2 and is 3"),
        ({"options": {"lr": 0.7}}, "options.*lr was .* and is 0.7"),
        ({"data_seed": 1}, "data_seed was 0 and is 1"),
        ({"seed": 5}, "seed was 0 and is 5"),
    ],
    ids=str,
)
def test_another_run_is_refused_with_the_difference(changes, message, tmp_path):
    """Nothing is overwritten by what it is not."""
    start(tmp_path, TINY)
    before = (tmp_path / "history.csv").read_bytes()
    with pytest.raises(ValueError, match=message):
        start(tmp_path, dataclasses.replace(TINY, **changes))
    with pytest.raises(ValueError, match="seeds was 2 and is 3"):
        start(tmp_path, TINY, seeds=3)
    assert (tmp_path / "history.csv").read_bytes() == before


LOSSES = [lambda outputs, y: outputs[:, 0] * 1, lambda outputs, y: outputs[:, 0] * 0]


@pytest.mark.parametrize(
    ("one", "other", "where"),
    [
        ({"loss": LOSSES[0]}, {"loss": LOSSES[1]}, "loss"),
        ({"metrics": {"a": LOSSES[0]}}, {"metrics": {"a": LOSSES[1]}}, "metrics.a"),
        (
            {"model": fm.models.mlp(10, hidden=(3,))},
            {"model": fm.models.mlp(10, hidden=(4,))},
            "model",
        ),
        (
            {"backend": fm.backends.chunked(1)},
            {"backend": fm.backends.chunked(2)},
            "backend",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_objects_are_refused(one, other, where, tmp_path):
    """The result of the loss of yesterday, given back for that of today."""
    RunFolder(tmp_path, dataclasses.replace(TINY, **one), None)
    RunFolder(tmp_path, dataclasses.replace(TINY, **one), None)
    with pytest.raises(ValueError, match=rf"{where}.hash was \w+ and is \w+"):
        RunFolder(tmp_path, dataclasses.replace(TINY, **other), None)


@pytest.mark.parametrize("name", ["history.csv", "params.npz"])
def test_a_finished_run_that_was_damaged_is_refused_by_name(name, tmp_path):
    """A history that was cut at the end of a line, read as the whole run."""
    start(tmp_path)
    path = tmp_path / name
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    for call in (start, fm.read, fm.resume):
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            call(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=f"{name} is missing"):
        start(tmp_path)


def test_versions_that_a_run_was_resumed_with_are_recorded(tmp_path):
    """Digits of two versions in one history, and nothing that says so."""
    RunFolder(tmp_path, TINY, 2)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    now = stored["versions"]
    path.write_text(json.dumps(stored | {"versions": now | {"jax": "0.1"}}))
    for _ in range(2):
        start(tmp_path, TINY)
        stored = json.loads(path.read_text())
        assert stored["versions"]["jax"] == "0.1" and stored["complete"]
        assert stored["resumed_with"] == [now]


@pytest.mark.parametrize("field", ["rows", "precision", "diagnostics", "held_out"])
def test_folders_from_before_a_field_are_the_same_run(field, tmp_path):
    """Hours of rounds that a new version refuses, because it has one field more."""
    RunFolder(tmp_path, TINY, 2)
    path = tmp_path / "config.json"
    stored = json.loads(path.read_text())
    del stored["experiment"][field]
    path.write_text(json.dumps(stored))
    RunFolder(tmp_path, TINY, 2)
    other = dataclasses.replace(TINY, cohort=TINY.cohort + 1)
    with pytest.raises(ValueError, match="cohort was"):
        RunFolder(tmp_path, other, 2)


def test_other_data_are_refused(tmp_path):
    """The file has the same name, its content changed."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    parts = {"x_train": x[:40], "x_test": x[40:], "y_test": np.arange(20) % 2}
    y = np.arange(40) % 2
    path = tmp_path / "data.npz"
    np.savez(path, **parts, y_train=y)
    (tmp_path / "out").mkdir()
    own = dataclasses.replace(TINY, dataset=f"npz:{path}")
    RunFolder(tmp_path / "out", own, 2)
    np.savez(path, **parts, y_train=1 - y)
    with pytest.raises(ValueError, match="data was .* and is"):
        RunFolder(tmp_path / "out", own, 2)


def test_data_may_lie_elsewhere(tmp_path):
    """The same files in another folder, on another machine."""
    rng = np.random.default_rng(0)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    x, y = rng.integers(0, 256, (300, 28, 28), np.uint8), np.arange(300) % 10
    parts = {"x_train": x[:200], "x_test": x[200:], "y_train": y[:200]}
    np.savez(tmp_path / "here" / "mnist.npz", **parts, y_test=y[200:])
    shutil.copy(tmp_path / "here" / "mnist.npz", tmp_path / "there")
    one, other = (
        dataclasses.replace(
            TINY, dataset="mnist", model="logistic", data_dir=tmp_path / name
        )
        for name in ("here", "there")
    )
    (tmp_path / "out").mkdir()
    RunFolder(tmp_path / "out", one, 2)
    assert not RunFolder(tmp_path / "out", other, 2).done
    np.savez(tmp_path / "there" / "mnist.npz", **parts, y_test=(y[200:] + 1) % 10)
    with pytest.raises(ValueError, match="data was .* and is"):
        RunFolder(tmp_path / "out", other, 2)


def test_folders_that_cannot_be_used(tmp_path):
    """Before anything is run: in use, a file, or full of something else."""
    with alone(tmp_path / "used"):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys\nfrom pathlib import Path\n"
                "from fedjax_mos.folder_lock import alone\n"
                "try:\n    alone(Path(sys.argv[1])).__enter__()\n"
                "except ValueError as error:\n    print(error)",
                str(tmp_path / "used"),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
    assert "no other process writes to" in done.stdout
    (tmp_path / "file").write_text("text")
    with pytest.raises(ValueError, match="out must be a folder that can be written"):
        start(tmp_path / "file", TINY)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("text")
    with pytest.raises(FileExistsError, match="a new or empty folder"):
        start(tmp_path / "other", TINY)


@pytest.mark.thorough
def test_a_configuration_is_repeated_to_the_bit(tmp_path):
    """config.json of a folder tells everything; own objects are named."""
    found = start(tmp_path / "a", OTHER)
    experiment, seeds, data = repeated(tmp_path / "a" / "config.json")
    assert seeds == 2
    check_data(tmp_path, experiment, data)
    with pytest.raises(ValueError, match="digits had the hash other .* and has"):
        check_data(tmp_path, experiment, "other")
    same(start(tmp_path / "b", experiment, seeds), found)
    files = [tmp_path / name / "params.npz" for name in "ab"]
    assert files[0].read_bytes() == files[1].read_bytes()
    own = dataclasses.replace(TINY, metrics={"one": lambda out, y: y == 1})
    start(tmp_path / "own", own)
    with pytest.raises(ValueError, match="objects given in Python.*metrics"):
        fm.resume(tmp_path / "own")
    with pytest.raises(ValueError, match="holds no run to resume"):
        fm.resume(tmp_path / "nothing")


def test_stop_at_a_target_or_by_a_function(tmp_path):
    """A run ends after the block in which all seeds reached it, and is complete."""
    far = dataclasses.replace(LONG, rounds=60, eval_every=1)
    easy = dataclasses.replace(far, stop_at=0.01).run(2, progress=False)
    assert easy.frame["round"].max() == 10 and easy.complete
    never = dataclasses.replace(far, stop_at=1.0).run(progress=False)
    assert never.frame["round"].max() == 60
    asked = []

    def stop(frame):
        asked.append(len(frame))
        return frame["round"].max() >= 20

    ours = far.run(progress=False, stop=stop)
    assert asked[:2] == [10, 20] and len(ours.frame) == 20 and ours.complete


def test_fewer_rounds_do_not_overwrite_more(tmp_path):
    """A finished run stays; one that stopped at a target is another run."""
    LONG.run(2, out=tmp_path / "a", progress=False)
    assert not (tmp_path / "a" / "checkpoints").exists()  # it was too short for any
    with pytest.raises(ValueError, match="rounds can only be raised.*has 23, got 5"):
        start(tmp_path / "a", dataclasses.replace(LONG, rounds=5))
    assert fm.read(tmp_path / "a").frame["round"].max() == 23
    early = dataclasses.replace(LONG, stop_at=0.01, eval_every=1)
    start(tmp_path / "b", early)
    with pytest.raises(ValueError, match="stop_at was 0.01 and is 0.9"):
        start(tmp_path / "b", dataclasses.replace(early, stop_at=0.9))


def test_a_run_that_was_ended_is_not_shortened(tmp_path, monkeypatch):
    """Else a smaller number of rounds, typed by mistake, would end it for good."""
    ended(monkeypatch, 1, lambda: start(tmp_path))
    stored = (tmp_path / "config.json").read_text()
    for call in (
        lambda: fm.resume(tmp_path, rounds=20, progress=False),
        lambda: start(tmp_path, dataclasses.replace(LONG, rounds=20)),
    ):
        with pytest.raises(ValueError, match="rounds can only be raised.*has 23, got"):
            call()
    assert (tmp_path / "config.json").read_text() == stored


def test_a_finished_run_says_that_nothing_was_run(tmp_path, capsys):
    """Else a resumed folder that is done looks like one that was trained again."""
    TINY.run(out=tmp_path, progress=False)
    for quiet in (True, False):
        fm.resume(tmp_path, progress=not quiet)
        told = f"{tmp_path} is finished: nothing was run\n"
        assert capsys.readouterr().err == told * (not quiet)


def test_more_rounds_that_are_ended_are_resumed(tmp_path, monkeypatch):
    """The rounds before, given as the whole run."""
    start(tmp_path)
    longer = dataclasses.replace(LONG, rounds=40)
    ended(monkeypatch, 1, lambda: start(tmp_path, longer))
    before = fm.read(tmp_path)
    assert not before.complete and len(before.frame) == 2 * LONG.rounds
    same(fm.resume(tmp_path), longer.run(2, progress=False))


def test_a_refused_comparison_changes_nothing(tmp_path):
    """A folder whose configuration is that of a call that was refused."""
    members = {"a": TINY, "b": dataclasses.replace(TINY, seed=5)}
    call = {"seeds": 2, "out": tmp_path, "progress": False}
    fm.compare(members, **call)
    stored = (tmp_path / "config.json").read_text()
    other = members | {"b": dataclasses.replace(TINY, seed=5, options={"lr": 0.3})}
    with pytest.raises(ValueError, match="another b: options.*lr was .* and is 0.3"):
        fm.compare(other, **call)
    with pytest.raises(ValueError, match="2 seeds, not 3"):
        fm.compare(members, **call | {"seeds": 3})
    fewer = {n: dataclasses.replace(m, rounds=1) for n, m in members.items()}
    with pytest.raises(ValueError, match="rounds can only be raised.*has 2, got 1"):
        fm.compare(fewer, **call)
    assert (tmp_path / "config.json").read_text() == stored
    unfinished = json.loads(stored) | {"complete": False}
    (tmp_path / "config.json").write_text(stored := json.dumps(unfinished))
    with pytest.raises(ValueError, match="rounds can only be raised.*has 2, got 1"):
        fm.compare(fewer, **call)
    assert (tmp_path / "config.json").read_text() == stored


@pytest.mark.parametrize(
    "study",
    [
        lambda out: TINY.run(out=out, progress=False),
        lambda out: fm.compare({"a": TINY}, 1, out=out, progress=False),
        lambda out: fm.sweep(TINY, lr=[0.1], out=out, progress=False),
        lambda out: fm.search(TINY, lr=[0.1], out=out, progress=False),
        lambda out: fm.tune(TINY, out=out, progress=False),
    ],
    ids=["run", "compare", "sweep", "search", "tune"],
)
def test_nobody_writes_to_a_folder_in_use(study, tmp_path):
    """Two processes in one folder, each of which takes the other's files for its."""
    with alone(tmp_path), pytest.raises(ValueError, match="is in use"):
        study(tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"uplink": "lag_worker"}, {"options": {"sampler.candidates": 99}}]
)
def test_what_is_refused_claims_no_folder(wrong, tmp_path):
    """A folder that a wrong argument has made useless for the right one."""
    sampler = "power_of_choice" if "options" in wrong else "ucs"
    bad = dataclasses.replace(TINY, sampler=sampler, **wrong)
    for call in (
        lambda: bad.run(out=tmp_path, progress=False),
        lambda: fm.compare({"bad": bad}, 1, out=tmp_path, progress=False),
    ):
        with pytest.raises(ValueError, match="lag_worker|candidates"):
            call()
    assert is_empty(tmp_path)
    TINY.run(out=tmp_path, progress=False)


def test_rounds_that_were_run_are_not_given_back(tmp_path):
    """A folder that is emptied because of an error after hours."""

    def stop(frame):
        if frame["round"].max() == 20:
            raise ValueError("mine")
        return False

    with pytest.raises(ValueError, match="mine"):
        LONG.run(out=tmp_path, progress=False, stop=stop, checkpoint_every=0)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["00000010"]


def test_stop_sees_the_frame_that_results_have():
    """With seeds by their numbers, and it is asked once per block."""
    seen = []
    one = dataclasses.replace(LONG, seed=7, rounds=40, cohorts=True)

    def stop(frame):
        seen.append((sorted(set(frame["seed"])), list(frame)))
        return len(seen) == 2

    result = one.run(2, progress=False, stop=stop)
    assert len(seen) == 2 and seen[0][0] == [7, 8]
    assert not any("cohort" in name for name in seen[0][1])
    assert result.complete and result.frame["round"].max() == 20


def test_sweeps_refuse_what_they_would_ignore():
    """No cohorts, rather than silence; a search decides itself who stops."""
    with pytest.raises(ValueError, match="cohorts are kept by runs and comparisons"):
        fm.sweep(dataclasses.replace(TINY, cohorts=True), lr=[0.1], progress=False)
    with pytest.raises(ValueError, match="stop_at must not be given, got 0.5"):
        fm.search(dataclasses.replace(TINY, stop_at=0.5), lr=[0.1], progress=False)
