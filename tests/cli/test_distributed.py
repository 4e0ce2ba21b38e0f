"""Two processes on one machine run a command as one; one of them may be killed."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.cli import app

METHODS = ("fedavg", "fedmos", "scaffold", "fedcams", "fedbnlaca")
SIZES = "--dataset npz:data.npz --partition iid --clients 9 --cohort 3 --model mlp"
WAIT = 120  # seconds; most of them are for the compiler
# In double precision a compressor chooses the same entries whatever the layout.
SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_ENABLE_COMPILATION_CACHE": "0",
}


def command(folder, words, **settings):
    return subprocess.Popen(
        [sys.executable, "-m", "fedjax_mos", *words],
        cwd=folder,
        env=os.environ | SETTINGS | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def pair(folder, words, **settings):
    """Two processes that run a command together."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meet = f"--distributed --coordinator-address 127.0.0.1:{port} --num-processes 2"
    both = [
        command(folder, [*words, *meet.split(), "--process-id", str(i)], **settings)
        for i in (0, 1)
    ]
    try:
        yield both
    finally:
        for one in both:
            one.kill()
            one.communicate()


def together(folder, words, **settings):
    """What the first process prints, and the second."""
    with pair(folder, words, **settings) as both:
        said = [one.communicate(timeout=WAIT) for one in both]
        assert [one.returncode for one in both] == [0, 0], said
    return said


def data(folder):
    """A data set without equal numbers."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6))
    y = (x @ rng.normal(size=(6, 3))).argmax(1)
    arrays = {"x_train": x, "y_train": y, "x_test": x[:30], "y_test": y[:30]}
    np.savez(folder / "data.npz", **arrays)


def history(folder):
    return pd.read_csv(folder / "history.csv").drop(columns="seconds")


@pytest.mark.thorough
def test_two_processes_compute_what_one_does(tmp_path):
    """Rows, examples or numbers lost between processes; a second one that writes."""
    data(tmp_path)
    words = f"compare {SIZES} --rounds 3 --seeds 2 --algorithms".split()
    words = [*words, *METHODS, "--backend"]
    alone = command(tmp_path, [*words, "vmapped", "--out", "one"])
    _, said = alone.communicate(timeout=WAIT)
    assert alone.returncode == 0, said
    first, second = together(tmp_path, [*words, "sharded", "--out", "two"])
    assert "results in two" in first[0]
    assert "results in" not in second[0] and "round" not in second[1]
    for method in METHODS:
        found, expected = (
            history(tmp_path / n / f"{method}-ucs") for n in ("two", "one")
        )
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9)
    assert {p.name for p in tmp_path.iterdir()} == {"data.npz", "one", "two"}


@pytest.mark.thorough
def test_two_processes_sweep_as_one(tmp_path):
    """Lanes that are run by nobody, or pieces that both write."""
    data(tmp_path)
    words = f"sweep {SIZES} --rounds 3 --algorithm scaffold --over lr=0.1,0.3 --seeds 1"
    words = [*words.split(), "--backend"]
    alone = command(tmp_path, [*words, "vmapped", "--out", "one"])
    _, said = alone.communicate(timeout=WAIT)
    assert alone.returncode == 0, said
    first, second = together(tmp_path, [*words, "sharded", "--out", "two"])
    assert "results in two" in first[0] and "results in" not in second[0]
    found, expected = (fm.read(tmp_path / n).frame for n in ("two", "one"))
    assert {*found["lr"]} == {0.1, 0.3} and len(found) == 6
    pd.testing.assert_frame_equal(
        *(one.drop(columns="seconds") for one in (found, expected)), rtol=1e-9
    )


@pytest.mark.thorough
def test_a_killed_process_ends_the_other_and_both_resume(tmp_path):
    """A process that waits for a dead one for ever, or a checkpoint of half a state.

    In single precision, as most runs are: then JAX sends no number of 64 bits.
    """
    data(tmp_path)
    single = {"JAX_ENABLE_X64": "0"}
    words = f"run {SIZES} --rounds 40 --algorithm scaffold --backend sharded".split()
    together(tmp_path, [*words, "--out", "whole"], **single)
    often = [*words, "--checkpoint-every", "0", "--out", "killed"]
    with pair(tmp_path, often, **single) as (first, second):
        kept, begun = tmp_path / "killed" / "checkpoints", time.monotonic()
        while not [*kept.glob("[0-9]*")]:
            assert first.poll() is None and time.monotonic() - begun < WAIT
            time.sleep(0.02)
        second.kill()
        _, said = first.communicate(timeout=60)
    assert first.returncode == app.FAILED
    assert "another process of this run has ended" in said
    (printed, said), _ = together(tmp_path, often, **single)
    assert "resumed after round" in said
    found, expected = (history(tmp_path / n) for n in ("killed", "whole"))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def test_processes_are_said_to_be_several(capsys):
    """A process that runs alone although it was told where the others are."""
    with pytest.raises(SystemExit, match="2"):
        app.main(["run", "--process-id", "1"])
    assert "process_id goes with --distributed: got 1" in capsys.readouterr().err
