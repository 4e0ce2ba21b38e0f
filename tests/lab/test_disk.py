"""Disks that are full, folders that go away, caches that cannot be used."""

import atexit
import dataclasses
import os
import shutil
import subprocess
import sys
import zipfile

import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import machine
from fedjax_mos.engine import run as loop
from fedjax_mos.lab import files
from fedjax_mos.lab.hypergradients.updates import Update, Updates
from tests.lab.tiny import TINY

SHORT = "run --rounds 2 --clients 6 --cohort 2 --steps 1 --batch-size 4"
METHOD = "--model logistic --algorithm fedavg --sampler ucs --out"
WORDS = [*SHORT.split(), *METHOD.split()]
MAIN = "from fedjax_mos.cli import main; main({})"


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    """What was there before outlives a writer that fails half-way."""
    path = tmp_path / "history.csv"
    path.write_text("before")
    with pytest.raises(OSError, match="full"), files.whole(path) as partial:
        partial.write_text("half")
        raise OSError("full")
    assert path.read_text() == "before"
    with files.whole(path) as partial:
        partial.write_text("after")
    assert [p.name for p in tmp_path.iterdir()] == ["history.csv"]
    assert path.read_text() == "after"


@pytest.mark.thorough
@pytest.mark.parametrize("step", range(1, 7))
def test_a_full_disk_costs_no_result(step, tmp_path, monkeypatch, capsys):
    """Whichever file fails, the result comes back and what was there stays.

    The first one, which says that more rounds are asked for, comes before they are run.
    """
    first = TINY.run(out=tmp_path, progress=False)
    longer = dataclasses.replace(TINY, rounds=4)
    replace, count = os.replace, iter(range(100))

    def failing(source, target):
        if next(count) == step:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as trap:
        trap.setattr(os, "replace", failing)
        result = longer.run(out=tmp_path, progress=False)
    assert len(result.frame) == 4
    failed = step < 6  # history, summary, parameters, picture, configuration
    assert ("No space left on device" in capsys.readouterr().err) == failed
    found = fm.read(tmp_path)
    assert len(found.frame) == (2 if step == 1 else 4)
    assert found.complete != failed
    assert not list(tmp_path.glob(".partial*"))
    again = longer.run(out=tmp_path, progress=False)
    frames = [r.frame.drop(columns="seconds").astype(float) for r in (again, result)]
    pd.testing.assert_frame_equal(*frames, check_like=True, rtol=1e-6)
    assert len(first.frame) == 2


def test_a_full_disk_is_noticed_before_more_rounds(tmp_path, monkeypatch):
    """Rounds are run for a folder that says of itself that it is complete."""
    TINY.run(out=tmp_path, progress=False)
    longer = dataclasses.replace(TINY, rounds=4)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ValueError, match="out must be a folder that can be written"):
        longer.run(out=tmp_path, progress=False)
    assert fm.read(tmp_path).complete


STUDIES = {
    "compare": lambda out: fm.compare({"a": TINY}, 1, out=out, progress=False),
    "sweep": lambda out: fm.sweep(TINY, lr=[0.1], out=out, progress=False),
    "search": lambda out: fm.search(TINY, lr=[0.1], out=out, progress=False),
    "tune": lambda out: fm.tune(TINY, out=out, progress=False),
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_full_disk_is_named_before_anything_is_run(study, tmp_path, monkeypatch):
    """An error of the system that does not say which argument it is about."""
    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(loop, "advance", None)
    with pytest.raises(ValueError, match="out must be a folder that can be written"):
        STUDIES[study](tmp_path)


def test_a_full_disk_ends_no_tuning(tmp_path, monkeypatch, capsys):
    """Updates that were made, lost because one of them could not be kept."""
    log = Updates({"kind": "tuning", "version": "0"}, tmp_path)
    monkeypatch.setattr(os, "replace", full)
    log.add(0, Update(0.5, [0.1], {}, [], 1.0, 1.0, "", 3, 9, 0.1))
    assert "No space left on device" in capsys.readouterr().err


def full(source, target):
    raise OSError(28, "No space left on device")


@pytest.mark.thorough
def test_a_folder_that_vanishes_is_made_again(tmp_path, monkeypatch):
    """Somebody who deletes it meanwhile loses nothing but what was in it."""
    out = tmp_path / "gone"
    run = fm.Experiment._run

    def vanishing(self, *args):
        shutil.rmtree(out)
        return run(self, *args)

    monkeypatch.setattr(fm.Experiment, "_run", vanishing)
    TINY.run(out=out, progress=False)
    assert len(fm.read(out).frame) == 2


def command(code, **environment):
    """A fresh process, and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.mark.thorough
def test_a_process_on_a_full_disk_shows_its_table(tmp_path):
    """No cache, no result can be written; the numbers are printed, the status says."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (3000, 3000)); "
    code = limit + MAIN.format([*WORDS, str(tmp_path / "out")])
    done = command(code, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 4, done.stderr
    assert "fedavg/ucs" in done.stdout
    assert f"could not write to {tmp_path / 'out'}: [Errno 27]" in done.stderr
    # And the next process, with room, finishes what this one could not.
    done = command(MAIN.format([*WORDS, str(tmp_path / "out")]))
    assert done.returncode == 0, done.stderr
    assert len(fm.read(tmp_path / "out").frame) == 2


@pytest.mark.thorough
def test_an_unusable_cache_changes_nothing_but_time(tmp_path):
    """Not writable, or full of rubbish: the same parameters, bit for bit."""
    on = {"JAX_ENABLE_COMPILATION_CACHE": "1"}
    plain = command(
        MAIN.format([*WORDS, str(tmp_path / "plain")]),
        XDG_CACHE_HOME=str(tmp_path / "cache"),
        **on,
    )
    assert plain.returncode == 0, plain.stderr
    kept = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert len(kept) > 3
    for path in kept:
        path.write_bytes(path.read_bytes()[:500])
    for name, cache in (("spoiled", tmp_path / "cache"), ("none", "/dev/null/x")):
        done = command(
            MAIN.format([*WORDS, str(tmp_path / name)]), XDG_CACHE_HOME=str(cache), **on
        )
        assert done.returncode == 0, done.stderr
        ours, theirs = (tmp_path / n / "params.npz" for n in (name, "plain"))
        with zipfile.ZipFile(ours) as a, zipfile.ZipFile(theirs) as b:
            assert a.namelist() == b.namelist()
            assert all(a.read(n) == b.read(n) for n in a.namelist())
    assert "cannot be written: no program is kept" in done.stderr


def test_a_user_without_a_home_has_a_cache(monkeypatch):
    """Services run as users that have none."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.expanduser", homeless)
    removed = []
    monkeypatch.setattr(atexit, "register", lambda *call, **_: removed.append(call[1]))
    machine._temporary.cache_clear()
    folder = machine.cache_folder()
    assert folder.is_dir() and os.access(folder, os.W_OK)
    assert folder == machine.cache_folder()
    assert removed == [str(folder)]  # when the process ends
    folder.rmdir()
    machine._temporary.cache_clear()
