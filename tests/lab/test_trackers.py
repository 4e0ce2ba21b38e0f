"""Trackers: told every row once, also of a run that was ended; off by default."""

import json
import math
import sqlite3
import struct

import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import tracker_writers, trackers
from tests.lab.test_resume import LONG, _visits_of_ten, ended  # noqa: F401
from tests.lab.tiny import TINY


def recorder():
    """A tracker of one's own, and what it was told."""
    told = []

    def tell(number, values):
        told.append((number, values))

    return tell, told


def run(folder, track, seeds=None, experiment=LONG):
    return experiment.run(
        seeds, out=folder, track=track, checkpoint_every=0, progress=False
    )


def test_a_function_is_told_every_round(tmp_path):
    """Finite numbers by column; what was not evaluated is not there."""
    tell, told = recorder()
    frame = run(tmp_path, tell).frame
    assert [number for number, _ in told] == list(range(1, 24))
    for (_, values), (_, row) in zip(told, frame.iterrows(), strict=True):
        expected = {n: float(v) for n, v in row.items() if math.isfinite(v)}
        del expected["round"]
        # Times between visits are known when the run is over.
        assert {**values, "seconds": 0} == {**expected, "seconds": 0}
    assert "test_loss" not in told[0][1] and "test_loss" in told[3][1]


def test_rows_are_told_between_blocks(tmp_path):
    """While the run is under way, not in the end."""
    tell, told = recorder()
    seen = []
    LONG.run(
        out=tmp_path,
        track=[tell],
        stop=lambda frame: seen.append(len(told)) or len(told) >= 10,
        progress=False,
    )
    assert seen == [10] and len(told) == 10  # told before `stop` is asked, once


@pytest.mark.thorough
def test_seeds_have_names_of_their_own(tmp_path):
    """Lanes would overwrite each other."""
    tell, told = recorder()
    frame = run(tmp_path, tell, seeds=2, experiment=TINY).frame
    assert {"test_loss/seed_0", "test_loss/seed_1"} <= {*told[0][1]}
    last = frame[(frame["seed"] == 1) & (frame["round"] == 2)]
    assert told[-1][1]["test_loss/seed_1"] == last["test_loss"].item()


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_resumed_run_tells_nothing_twice(tmp_path, monkeypatch, after):
    """Before the first checkpoint, at one, and with rows told beyond the last one."""
    tell, told = recorder()
    ended(monkeypatch, after, lambda: run(tmp_path, [tell, "csv"]))
    assert len(told) == 10 * after
    if after == 2:  # the newest checkpoint is lost
        newest = max((tmp_path / "checkpoints").iterdir(), key=lambda p: p.name)
        newest.rename(tmp_path / "gone")
    result = run(tmp_path, [tell, "csv"])
    assert [number for number, _ in told] == list(range(1, 24))
    rows = pd.read_csv(tmp_path / "track.csv")
    pd.testing.assert_frame_equal(rows, result.frame, check_dtype=False)


@pytest.mark.thorough
def test_resume_tells_those_that_were_named(tmp_path, monkeypatch):
    """`fedjax-mos resume` knows the trackers from the folder, comparisons too."""
    members = {"a": TINY, "b": LONG}

    def compared():
        fm.compare(members, 1, out=tmp_path, track="csv", checkpoint_every=0)

    ended(monkeypatch, 2, compared)
    assert trackers.tracked_in(tmp_path) == ("csv",)
    fm.resume(tmp_path)
    assert len(pd.read_csv(tmp_path / "b" / "track.csv")) == 23
    (tmp_path / "b" / "track.json").write_text('{"id": "x", "told": {"csv": "no"}}')
    with pytest.raises(ValueError, match="track.json is damaged"):
        fm.resume(tmp_path)


def test_parquet_holds_the_frame(tmp_path):
    """The same rows with their types."""
    result = run(tmp_path, "parquet", experiment=TINY)
    rows = pd.read_parquet(tmp_path / "track.parquet")
    pd.testing.assert_frame_equal(rows, result.frame)


def test_off_by_default(tmp_path):
    """A folder without trackers knows nothing of them."""
    TINY.run(out=tmp_path, progress=False)
    assert not [*tmp_path.glob("track*")]


def test_a_tracker_that_fails_costs_no_run(tmp_path, capsys):
    """A service that is gone is said once, and the others go on."""
    tell, told = recorder()

    def broken(number, values):
        raise ConnectionError("no answer")

    broken.__name__ = tell.__name__  # two functions of one name are two trackers
    result = run(tmp_path, [broken, tell])
    assert result.complete and len(told) == 23
    assert capsys.readouterr().err.count("function 1 is told nothing more") == 1


@pytest.mark.parametrize(
    ("track", "message"),
    [
        ("nope", "track must be one of csv, parquet, tensorboard, wandb, trackio"),
        (["csv", "wandbb"], "did you mean wandb"),
        (5, "track must be a sequence: got 5"),
        ([["csv"]], "track must hold names or functions"),
    ],
)
def test_unknown_trackers_are_refused(tmp_path, track, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path / "out", track)
    assert not (tmp_path / "out").exists()


def test_trackers_need_a_folder():
    """It is the folder that knows what was told."""
    with pytest.raises(ValueError, match="track needs out"):
        TINY.run(track="csv")


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_one_that_is_not_installed_is_said_first(name, tmp_path, monkeypatch):
    """One line that names the extra, before anything is computed."""
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    monkeypatch.setattr(fm.Experiment, "build", lambda *a, **k: pytest.fail("built"))
    message = rf"track {name} needs .* pip install '\.\[{name}\]'"
    for call in (
        lambda: run(tmp_path / "out", name),
        lambda: fm.compare({"a": TINY}, out=tmp_path / "out", track=name),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not (tmp_path / "out").exists()


def test_one_that_cannot_be_opened_is_said_first(tmp_path, monkeypatch):
    """A login that is missing: nothing is computed, and the folder is free again."""

    def closed(*about):
        raise PermissionError("log in first")

    library = tracker_writers.Library("pandas", closed)
    monkeypatch.setitem(tracker_writers.WRITERS, "wandb", library)
    with pytest.raises(ValueError, match="track wandb could not be opened: log in"):
        run(tmp_path, "wandb")
    assert not (tmp_path / "config.json").exists()


# ---- the real libraries --------------------------------------------------------------


def twice(folder, monkeypatch, name):
    """A run that was ended and resumed, told to a library."""
    ended(monkeypatch, 1, lambda: run(folder, name))
    return run(folder, name).frame


def records(data):
    """The payloads of a file of records: length, checksum, payload, checksum."""
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield data[12 : 12 + length]
        data = data[16 + length :]


def test_tensorboard(tmp_path, monkeypatch):
    """TensorBoard's own events hold every round once."""
    pytest.importorskip("tensorboardX", reason="an extra that is not installed")
    from tensorboardX.proto.event_pb2 import Event

    frame = twice(tmp_path, monkeypatch, "tensorboard")
    files = sorted((tmp_path / "tensorboard").iterdir())
    events = [Event.FromString(r) for f in files for r in records(f.read_bytes())]
    losses = [
        (event.step, value.simple_value)
        for event in events
        for value in event.summary.value
        if value.tag == "test_loss"
    ]
    expected = frame.dropna(subset="test_loss")
    assert [step for step, _ in losses] == expected["round"].tolist()
    assert [v for _, v in losses] == pytest.approx(expected["test_loss"].tolist())


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")  # the libraries' own
def test_trackio(tmp_path, monkeypatch):
    """One run in its data base, with every round once."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "base"))  # read on import
    pytest.importorskip("trackio", reason="an extra that is not installed")
    from trackio import utils

    frame = twice(tmp_path / "run", monkeypatch, "trackio")
    with sqlite3.connect(utils.TRACKIO_DIR / "fedjax_mos.db") as base:
        marks = json.loads((tmp_path / "run" / "track.json").read_text())
        rows = base.execute(
            "select step, metrics from metrics where run_name = ? order by step",
            [f"run-{marks['id'][:8]}"],
        ).fetchall()
    base.close()
    assert [step for step, _ in rows] == frame["round"].tolist()
    assert json.loads(rows[-1][1])["test_loss"] == frame["test_loss"].iloc[-1]


def chunks(data, block=32768):
    """The payloads of a .wandb file: a log in blocks, a header of 7 bytes each."""
    at, whole = 7, b""
    while at + 7 <= len(data):
        if block - at % block < 7:  # no room for a header
            at += block - at % block
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # all of it, or the last part
            yield whole
            whole = b""


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")  # the libraries' own
def test_wandb_offline(tmp_path, monkeypatch):
    """Two files of one run, which hold every round once."""
    pytest.importorskip("wandb", reason="an extra that is not installed")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    frame = twice(tmp_path, monkeypatch, "wandb")
    steps, files = [], sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    for path in files:
        told = [Record.FromString(chunk) for chunk in chunks(path.read_bytes())]
        steps += [one.history.step.num for one in told if one.HasField("history")]
    assert sorted(steps) == frame["round"].tolist()
    assert len({path.name for path in files}) == 1
