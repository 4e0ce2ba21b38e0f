"""Rows on disk keep what checkpoints point to, whenever a process ends."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.row_store import RowStore
from tests.engine import test_working_set as runs

CLIENTS = 6
FIRST = {
    "a": jnp.full((1, 2), 7.0),
    "b": jnp.zeros((1, 3), jnp.int8),
    "c": jnp.ones((1, 0)),
}


def rows(*values):
    """One row per value."""
    one = np.array(values)
    return {
        "a": jnp.asarray(np.stack([one, -one], 1), jnp.float32),
        "b": jnp.asarray(np.stack([one] * 3, 1), jnp.int8),
        "c": jnp.ones((len(values), 0)),
    }


def put(store, versions, **values):
    """Write value v to client i, for `ci=v`."""
    ids = np.array([int(name[1:]) for name in values])
    return store.write(versions, ids, rows(*values.values()), np.arange(len(ids)))


def values(store, versions):
    found = store.read(versions, np.arange(CLIENTS), CLIENTS)
    return found["a"][:, 0].astype(int).tolist()


def test_rows_come_back(tmp_path):
    """A client that gets another's row, or one that was never written as zeros."""
    store = RowStore(FIRST, tmp_path)
    now = put(store, store.begin(CLIENTS), c1=1, c4=4)
    now = put(store, now, c4=5, c0=2)
    assert values(store, now) == [2, 1, 7, 7, 5, 7]
    found = store.read(now, np.array([4, 1]), 3)
    assert found["b"].tolist()[:2] == [[5] * 3, [1] * 3] and found["c"].shape == (3, 0)
    # Rows that no checkpoint has are written in place.
    assert (
        len(set(np.asarray(now.now).tolist())) == 4 and np.asarray(now.now).max() == 2
    )


def cut(leaf):
    """An array in two parts, of which the second is on two devices."""
    halves = ((0, slice(None, 2)), (0, slice(2, 4)), (1, slice(2, 4)))
    return SimpleNamespace(
        addressable_shards=[
            SimpleNamespace(replica_id=i, index=(part,), data=leaf[part] * (1 - i))
            for i, part in halves
        ]
    )


def test_rows_that_devices_share_come_back(tmp_path):
    """The first device's row in place of the second's, or none of it."""
    store = RowStore(FIRST, tmp_path)
    shared = {name: cut(leaf) for name, leaf in rows(1, 2, 3, 4).items()}
    places = np.array([1, 2, 3])
    now = store.write(store.begin(CLIENTS), np.array([5, 0, 2]), shared, places)
    assert values(store, now) == [3, 7, 4, 7, 7, 2]


def test_rows_are_on_the_disk_before_a_checkpoint_is(tmp_path, monkeypatch):
    """Rows that a machine without power has lost, and a checkpoint that has them."""
    store, seen, real = RowStore(FIRST, tmp_path), set(), os.fsync

    def fsync(file):
        seen.add(os.fstat(file).st_ino)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    put(store, store.begin(CLIENTS), c0=1)
    store.flush()
    files = [*tmp_path.glob("*.records")]
    assert len(files) == 2 and {f.stat().st_ino for f in files} <= seen


def test_two_checkpoints_are_left_alone(tmp_path):
    """A row that a checkpoint has promised, overwritten by what came later."""
    store = RowStore(FIRST, tmp_path)
    now = put(store, store.begin(CLIENTS), c0=1, c1=1)
    first, now = now, store.saved(now)
    now = put(store, now, c0=2, c2=2)
    second, now = now, store.saved(now)
    for value in range(3, 9):
        now = put(store, now, c0=value, c1=value, c3=value)
    for one in (store, RowStore(FIRST, tmp_path)):  # also of the next process
        assert values(one, first) == [1, 1, 7, 7, 7, 7]
        assert values(one, second) == [2, 1, 2, 7, 7, 7]
    assert values(store, now) == [8, 8, 2, 8, 7, 7]
    store.saved(now)  # the first one goes: its records are free again
    size = sum(f.stat().st_size for f in tmp_path.glob("*.records"))
    put(store, now, c5=9)
    assert sum(f.stat().st_size for f in tmp_path.glob("*.records")) == size


def test_a_resumed_run_keeps_the_checkpoint_before(tmp_path):
    """A damaged checkpoint, and rows of the one before it that are gone."""
    store = RowStore(FIRST, tmp_path)
    first = put(store, store.begin(CLIENTS), c0=1)
    now = store.saved(first)
    second = put(store, now, c0=2)
    resumed = RowStore(FIRST, tmp_path)
    now = second  # as the checkpoint has it, which knows the one before
    for value in range(3, 6):
        now = put(resumed, now, c0=value, c1=value)
    assert values(resumed, first)[0] == 1 and values(resumed, second)[0] == 2


def test_missing_rows_are_said(tmp_path):
    """A run that resumes with zeros, because somebody has removed the files."""
    store = RowStore(FIRST, tmp_path / "a")
    now = put(store, store.begin(CLIENTS), c0=1)
    with pytest.raises(ValueError, match="does not hold the rows of the checkpoint"):
        values(RowStore(FIRST, tmp_path / "b"), now)


CHANGES = [
    (lambda s: s | {"format": 2}, "format was 2 and is 1"),
    (lambda s: s | {"bytes between records": [9, 3]}, r"between .* was \[9, 3\]"),
    (lambda s: s | {"bytes of a record": [8]}, r"record was \[8\] and is \[8, 3\]"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_rows_of_another_form_are_refused(tmp_path, change, message):
    """Rows that are read from the middle of others."""
    now = put(store := RowStore(FIRST, tmp_path), store.begin(CLIENTS), c0=1)
    path = tmp_path / "format.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps(change(stored)))
    with pytest.raises(ValueError, match=f"rows in another form: .*{message}"):
        RowStore(FIRST, tmp_path)
    path.write_text("{")
    with pytest.raises(ValueError, match="format.json is damaged"):
        RowStore(FIRST, tmp_path)
    path.unlink()  # as rows had none
    assert values(RowStore(FIRST, tmp_path), now)[0] == 1
    assert json.loads(path.read_text()) == stored


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    """A row that is half written, because nobody asked for room before."""

    def full(*_):
        raise OSError(28, "No space left on device")

    store = RowStore(FIRST, tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"cannot hold .* rows .*No space left.*resume"):
        put(store, store.begin(CLIENTS), c0=1)


def test_a_disk_that_fills_up_between_two_leaves_costs_nothing(tmp_path, monkeypatch):
    """A run that can never be resumed, because one of its files is ahead."""
    real, files = os.posix_fallocate, []

    def fills_up(file, *more):
        files.append(file)
        if len(files) == 2:
            raise OSError(28, "No space left on device")
        real(file, *more)

    store = RowStore(FIRST, tmp_path)
    now = store.saved(put(store, store.begin(CLIENTS), c0=1))
    monkeypatch.setattr(os, "posix_fallocate", fills_up)
    with pytest.raises(OSError, match="No space left"):
        put(store, now, c0=2, c1=2)
    for one in (store, RowStore(FIRST, tmp_path)):  # also of the next process
        assert values(one, put(one, now, c0=3, c1=3)) == [3, 3, 7, 7, 7, 7]


def test_a_store_of_its_own_goes():
    """Gigabytes that stay in the temporary folder."""
    store = RowStore(FIRST)
    folder = store.folder
    put(store, store.begin(CLIENTS), c0=1)
    assert list(folder.iterdir())
    del store
    assert not folder.exists()


class Eager(Checkpoints):
    """Writes one after every visit to the device."""

    def wanted(self, interrupted, ended):
        return True

    def of(self, layout, **more):
        return Eager(self.folder, self.about | more, self.every, layout)


class LongRun:
    """A run whose rows are on disk, with a checkpoint after every third round."""

    def __init__(self, folder):
        runs.working_set._BYTES = 3 * 3 * 24
        self.found = runs.on_disk(
            runs.simulation(),
            runs.ragged(),
            folder / "rows",
            rounds=100,
            checkpoints=Eager(folder / "checkpoints"),
        )

    def check(self):
        """Equal to the run that was never killed."""
        with tempfile.TemporaryDirectory() as folder:
            runs.assert_same(self.found, LongRun(Path(folder)).found)


@pytest.mark.thorough
def test_killed_at_any_moment(tmp_path):
    """Rows written after the last checkpoint, found by the run that resumes from it."""
    code = (
        "from pathlib import Path; from tests.engine import test_row_store as t; "
        f"t.LongRun(Path({str(tmp_path)!r}))"
    )
    rng, kills = np.random.default_rng(0), 0
    for _ in range(4):
        process = subprocess.Popen([sys.executable, "-c", code])
        until = time.monotonic() + 60
        before = _last(tmp_path)
        while _last(tmp_path) == before and process.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.4))
        kills += process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert kills >= 2
    subprocess.run([sys.executable, "-c", code + ".check()"], check=True)


def _last(folder):
    return max((p.name for p in folder.glob("checkpoints/0*")), default="")
