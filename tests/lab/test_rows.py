"""Experiments whose rows are on disk or whose clients are generated."""

import dataclasses
import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos import memory
from fedjax_mos.cli.app import main
from fedjax_mos.engine import run
from fedjax_mos.lab import memory_checks
from fedjax_mos.tree import fingerprint
from tests.lab.tiny import TINY

ROWS = dataclasses.replace(TINY, algorithm="scaffold", clients=12, rounds=12)
DISK = dataclasses.replace(ROWS, rows="disk")
MANY = dataclasses.replace(TINY, dataset="synthetic_population", clients=300)


def assert_same(found, wanted):
    assert fingerprint(found.params) == fingerprint(wanted.params)
    frames = [one.frame.drop(columns="seconds") for one in (found, wanted)]
    assert frames[0].equals(frames[1])


def test_rows_on_disk_resume(tmp_path):
    """A run that finds other rows than it had when it was ended."""
    short = dataclasses.replace(DISK, rounds=5)
    short.run(progress=False, out=tmp_path / "a", checkpoint_every=0)
    assert list((tmp_path / "a" / "rows").glob("*.records"))
    found = DISK.run(progress=False, out=tmp_path / "a")
    assert_same(found, ROWS.run(progress=False))


@pytest.mark.thorough
def test_rows_that_nothing_resumes_from_go(tmp_path):
    """Gigabytes in a folder whose run is over, and of no use."""
    DISK.run(progress=False, out=tmp_path / "a")
    assert not (tmp_path / "a" / "rows").exists()


@pytest.fixture
def little(monkeypatch):
    """A machine that holds the model a few times, and not the rows."""
    for module in (memory_checks, memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 2**17)


@pytest.mark.usefixtures("little")
def test_rows_that_do_not_fit_go_to_disk(capsys):
    """A run that is refused, though the disk has room."""
    many = dataclasses.replace(ROWS, clients=60)
    made = many.build()
    assert made.on_disk
    assert "the clients' rows, 0.0 GiB, are kept on disk" in capsys.readouterr().err
    with pytest.raises(ValueError, match="a hypergradient needs all rows in memory"):
        fm.hypergrad(many)
    for changes in ({"rows": "memory"}, {}):
        with pytest.raises(ValueError, match="60 clients .* needs at least"):
            dataclasses.replace(many, **changes).build(lanes=1 if changes else 2)
    assert "refused: scaffold/ucs" in many.describe(seeds=3).text()


def test_accelerators_have_memory_of_their_own(monkeypatch):
    """Rows that the host holds, on devices that do not."""
    many = dataclasses.replace(ROWS, clients=60)
    assert not many.build().on_disk
    each = 2**17 // jax.device_count()
    monkeypatch.setattr(memory_checks, "device_memory", lambda: each)
    assert many.build().on_disk
    with pytest.raises(ValueError, match="60 clients .* needs at least"):
        dataclasses.replace(many, rows="memory").build()
    with pytest.raises(ValueError, match="a batch_size of 90,000 .* needs at least"):
        dataclasses.replace(many, batch_size=90_000).build()
    last = many.describe().rows[-1]
    assert last == {"what": "the machine", "memory": "128.0 KiB"}
    monkeypatch.setattr(memory_checks, "device_memory", lambda: 2**50)
    assert memory_checks.run_memory() == memory.machine_memory()


@pytest.mark.parametrize("grows", [True, False])
def test_rows_stay_where_a_run_began_with_them(grows, tmp_path, monkeypatch):
    """A run that another machine, or another limit of memory, reads as another's."""

    def machine(size):
        for module in (memory_checks, memory):
            monkeypatch.setattr(module, "machine_memory", lambda: size)

    whole = dataclasses.replace(ROWS, clients=60)
    machine(2**17 if grows else 2**40)
    short = dataclasses.replace(whole, rounds=5)
    short.run(progress=False, out=tmp_path, checkpoint_every=0)
    assert (tmp_path / "rows").exists() == grows
    machine(2**40 if grows else 2**17)
    if not grows:
        with pytest.raises(ValueError, match="60 clients .* needs at least"):
            whole.run(progress=False, out=tmp_path)
        return
    found = whole.run(progress=False, out=tmp_path)
    assert (tmp_path / "rows").exists()
    assert_same(found, whole.run(progress=False))


@pytest.mark.parametrize("out", [True, False])
def test_a_disk_without_room_is_said(out, tmp_path, monkeypatch):
    """A run that fails after hours, when the disk is full; or is refused for another.

    Rows of a resumed run have their place; files of other folders are not theirs.
    """
    monkeypatch.setattr(memory_checks.tempfile, "tempdir", str(tmp_path / "temporary"))
    place = tmp_path / ("out" if out else "temporary")
    place.mkdir()
    asked = []

    def usage(path):
        asked.append(path)
        return SimpleNamespace(free=1000 if place in (path, path.parent) else 2**40)

    monkeypatch.setattr(memory_checks.shutil, "disk_usage", usage)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.records").write_bytes(bytes(10**6))
    with pytest.raises(
        ValueError, match=f"rows of 12 clients need .* the disk of {place} has"
    ):
        DISK.run(progress=False, out=place if out else None)
    assert asked == [place]
    if out:
        (place / "rows").mkdir()
        (place / "rows" / "0.records").write_bytes(bytes(10**6))
        memory_checks.check_room(np.zeros((1, 650)), 12, place / "rows")


WORDS = "--algorithm scaffold --sampler ucs --clients 12 --cohort 2 --model logistic"


@pytest.mark.parametrize("call", ["posix_fallocate", "fsync"])
def test_a_disk_that_fills_up_costs_no_result(call, tmp_path, monkeypatch, capsys):
    """Hours of rounds without a history or a table, and a status of wrong words."""
    real, calls = getattr(os, call), iter(range(100))
    words = f"run {WORDS} --rows disk --rounds 12 --eval-every 3 --checkpoint-every 0"
    words = [*words.split(), "--out", str(tmp_path)]

    def full(file, *more):
        # The rows' files, of which there are two, after the first checkpoint.
        ours = os.readlink(f"/proc/self/fd/{file}").endswith(".records")
        if ours and next(calls) >= 2:
            raise OSError(28, "No space left on device")
        return real(file, *more)

    with monkeypatch.context() as trap:
        trap.setattr(run.Pace, "rounds", lambda self: 3)
        trap.setattr(os, call, full)
        with pytest.raises(SystemExit, match="4"):
            main(words)
    out, said = capsys.readouterr()
    assert "scaffold/ucs" in out and f"results in {tmp_path}" in out
    assert "out of disk after round 6 of 12: [Errno 28]" in said
    assert "with more room fedjax-mos resume" in said
    found = fm.read(tmp_path)
    assert not found.complete and len(found.frame) == 6
    main(words)
    found = fm.read(tmp_path).frame["test_loss"]
    again = words[:-1] + [str(tmp_path / "again")]
    main(again)
    assert found.equals(fm.read(tmp_path / "again").frame["test_loss"])


WRONG = [
    (DISK, {"sampler": "everyone"}, "takes some clients: everyone has 12 slots"),
    (DISK, {"diagnostics": ("client_drift",)}, "must not have client_drift where"),
    (MANY, {"sampler": "cacs"}, "needs no work on the host"),
    (MANY, {"held_out": 0.5}, "held_out must be 0 for generated clients"),
    (MANY, {"per_client": "global"}, "per_client must be off for generated"),
    (MANY, {"partition": "iid"}, "synthetic_population has its own clients"),
]


@pytest.mark.parametrize(("start", "changes", "message"), WRONG)
def test_what_needs_everybody_is_refused(start, changes, message):
    """An experiment that is refused, or wrong, only when it has begun."""
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(start, **changes).build()


def test_seeds_with_rows_on_disk_are_refused():
    with pytest.raises(ValueError, match="rows must not be disk with several"):
        DISK.run(seeds=2, progress=False)
    with pytest.raises(ValueError, match="one simulation at a time"):
        DISK.run(seeds=1, progress=False)


@pytest.mark.thorough
def test_generated_clients_run_in_lanes():
    """A seed of several that differs from the same seed alone."""
    both = MANY.run(seeds=2, progress=False)
    one = dataclasses.replace(MANY, seed=1).run(seeds=1, progress=False)
    lane = both.frame[both.frame["seed"] == 1].reset_index(drop=True)
    pd_testing(lane, one.frame)
    with pytest.raises(ValueError, match="a partition needs stored examples"):
        MANY.partition_map()


def pd_testing(found, wanted):
    for name in set(wanted) - {"seconds"}:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)


def test_own_generated_clients():
    """A population of the user's own, and what it is measured on."""

    def generate(client, key):
        x = jax.random.normal(key, (3, 4)) + client
        return x, (x[:, 0] > client).astype(jnp.int32)

    people = fm.generated(50, 3, generate, measured=5)
    own = dataclasses.replace(TINY, dataset=people, clients=None, rounds=3)
    weighed = dataclasses.replace(own, importance="uniform")
    assert weighed.build().data.mass.tolist() == [1] * 50
    assert own.run(progress=False).frame["train_loss"].notna().all()
    train, test = people.stores["train"], people.stores["test"]
    assert train.size.tolist() == test.size.tolist() == [3] * 5
    means = np.asarray(train.x).reshape(5, 3, 4).mean((1, 2))
    np.testing.assert_allclose(means, [0, 12, 24, 36, 49], atol=1.5)


def test_memory_is_described(capsys):
    """A table that allocates what it is about, or leaves a part of it out."""
    table = {row["what"]: row for row in ROWS.describe(seeds=2).rows}
    rows = 12 * 4 * (64 * 10 + 10)
    assert table["clients' rows"]["one seed"] == f"{rows / 2**10:.1f} KiB"
    assert table["clients' rows"]["2 seeds"] == f"{2 * rows / 2**10:.1f} KiB"
    assert table["data"]["one seed"] == table["data"]["2 seeds"]
    words = "--algorithm scaffold --clients 12 --cohort 2 --rows disk"
    main(["describe", *words.split(), "--model", "logistic"])
    assert "clients' rows on disk: 30.5 KiB" in capsys.readouterr().out


PEAK = """
import resource
import numpy as np
import fedjax_mos as fm

x, y = np.zeros((1600, 784), np.float32), np.arange(1600) % 10
one = fm.Experiment(
    algorithm="scaffold", dataset=fm.arrays(x, y, x[:10], y[:10]), clients=800,
    partition="iid", cohort=2, rounds=11, steps=1, batch_size=2, model="mlp",
    eval_every=11, options={"hidden": (128,)}, rows=ROWS,
)
one.build()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
one.run(progress=False)
state = 801 * 4 * (784 * 128 + 128 + 1290)
print((peak() - before) / state)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("rows", "most"), [("memory", 1.7), ("disk", 0.7)])
def test_the_state_is_held_once(rows, most, tmp_path):
    """A copy of all rows for the caller, for the blocks, for the result.

    Of a second process: the first one's peak is that of the compiler.
    """
    code = PEAK.replace("ROWS", repr(rows))
    cache = {"XDG_CACHE_HOME": str(tmp_path), "JAX_ENABLE_COMPILATION_CACHE": "1"}
    for _ in range(2):
        out = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | cache,
            check=True,
            capture_output=True,
            text=True,
        )
    assert float(out.stdout) < most
