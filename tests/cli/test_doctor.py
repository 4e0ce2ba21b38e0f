"""The doctor's report: what is there, and what to do where something is wrong."""

import jax
import pytest

from fedjax_mos import cli
from fedjax_mos.cli import doctor


def report(capsys):
    """Everything that was printed, and the exit status."""
    try:
        cli.main(["doctor"])
    except SystemExit as ended:
        return capsys.readouterr().out, ended.code
    return capsys.readouterr().out, 0


@pytest.fixture(autouse=True)
def _healthy(monkeypatch):
    """A machine that nothing is wrong with, whatever this one is."""
    monkeypatch.setattr(doctor, "_ACCELERATORS", {})
    monkeypatch.setattr(doctor, "_LITTLE", 0)
    monkeypatch.setattr("fedjax_mos.machine.keeps_programs", lambda: True)
    monkeypatch.setattr("fedjax_mos.machine.keep_programs", lambda: None)


def test_a_healthy_machine(capsys, tmp_path, monkeypatch):
    """A report without versions, devices or data, or a fault that is none."""
    (tmp_path / "mnist.npz").touch()
    monkeypatch.setenv("FEDJAX_MOS_DATA", str(tmp_path))
    text, status = report(capsys)
    assert status == 0 and text.endswith("nothing is wrong\n")
    for words in ("jax 0.", "cpu", "cores", "digits", f"mnist in {tmp_path}"):
        assert words in text
    assert "not here:" in text and "extras:" in text


def test_an_accelerator_that_jax_does_not_use(capsys, tmp_path, monkeypatch):
    """A run on the CPU for a day beside an idle GPU."""
    monkeypatch.setattr(doctor, "_ACCELERATORS", {str(tmp_path): "jax[cuda13]"})
    text, status = report(capsys)
    assert status == 1 and "pip install jax[cuda13]" in text
    assert text.endswith("1 thing(s) to do\n")


def test_a_cache_that_cannot_be_used(capsys, monkeypatch):
    """Every start as slow as the first, and nobody knows why."""
    monkeypatch.setattr("fedjax_mos.machine.keeps_programs", lambda: False)
    text, status = report(capsys)
    assert status == 1 and "set XDG_CACHE_HOME" in text


def test_programs_that_were_moved(capsys, tmp_path, monkeypatch):
    """Neither folder needs to be there yet; the one that counts is named."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    moved = str(tmp_path / "moved" / "programs")
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", moved)
    try:
        text, status = report(capsys)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert status == 0 and moved in text


def test_a_disk_that_is_full(capsys, monkeypatch):
    """Programs that are dropped without a word."""
    monkeypatch.setattr(doctor, "_LITTLE", 2**70)
    assert "free some space" in report(capsys)[0]
