"""What fits the machine is known before anything is allocated."""

import pytest

import fedjax_mos as fm
from fedjax_mos import memory
from fedjax_mos.lab import assemble


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


@pytest.mark.parametrize(("algorithm", "fits"), [("fedavg", True), ("scaffold", False)])
def test_states_of_clients_count(algorithm, fits, monkeypatch):
    """One tree per client is allocated three times before a word is said."""
    few = fm.Experiment(algorithm=algorithm, clients=20, cohort=2, model="mlp")
    # 4,810 parameters: 21 trees of 20 kB do not fit, some four do.
    monkeypatch.setattr(assemble, "machine_memory", lambda: 2**18)
    monkeypatch.setattr(memory, "machine_memory", lambda: 2**18)
    if fits:
        few.build()
        return
    with pytest.raises(
        ValueError, match="scaffold/acs with .* mlp of 4,810 .* 20 clients"
    ):
        few.build()
