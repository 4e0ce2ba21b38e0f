"""What fits the machine is known before anything is allocated."""

import pytest

from fedjax_mos import memory


def test_limits_count(monkeypatch, tmp_path):
    """The memory of the whole machine, in a container that may use a part of it."""
    whole = memory.machine_memory()
    assert whole > 2**28
    (tmp_path / "memory.max").write_text("4096\n")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path / "memory.max")
    assert memory.machine_memory() == 4096
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.machine_memory() == whole


def test_numbers_are_told():
    """A refusal that does not say how much was wanted and how much there is."""
    memory.check_fits("nothing", 0, "")
    told = r"it needs at least 1,073,741,824.0 GiB and the machine has .* GiB: stop"
    with pytest.raises(ValueError, match=told):
        memory.check_fits("it", 2**60, "stop")
