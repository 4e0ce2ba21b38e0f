"""Experiments that cannot fit the machine are refused before anything is allocated."""

import dataclasses

import pytest

import fedjax_mos as fm
from fedjax_mos import memory
from fedjax_mos.lab import memory_checks
from tests.lab.tiny import TINY


@pytest.fixture
def little(monkeypatch):
    """A machine of 256 KiB."""
    for module in (memory_checks, memory):
        monkeypatch.setattr(module, "machine_memory", lambda: 2**18)


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(("algorithm", "fits"), [("fedavg", True), ("scaffold", False)])
def test_states_of_clients_count(algorithm, fits):
    """One tree per client is allocated before a word is said."""
    few = fm.Experiment(
        algorithm=algorithm, clients=20, cohort=2, model="mlp", rows="memory"
    )
    # 4,810 parameters: 21 trees of 20 kB do not fit, some four do.
    if fits:
        few.build()
        return
    with pytest.raises(
        ValueError, match="scaffold/acs with .* mlp of 4,810 .* 20 clients"
    ):
        few.build()


HUGE = 2**31 - 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": HUGE}, "a batch_size of 2,147,483,647 in 1 local steps"),
        ({"steps": HUGE}, "a batch_size of 4 in 2,147,483,647 local steps"),
        (
            {"steps": None, "epochs": HUGE},
            "4 in 2,147,483,647 epochs, for 2 clients at a time",
        ),
        ({"algorithm": "lag", "options": {"horizon": HUGE}}, "horizon=2147483"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_counts_that_shape_arrays_are_refused(changes, message, monkeypatch):
    """A compiler that runs out of memory, or a process that is killed."""
    monkeypatch.setattr(memory, "machine_memory", lambda: 2**33)
    monkeypatch.setattr(memory_checks, "machine_memory", lambda: 2**33)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(TINY, **changes).build()


def test_chunks_are_not_wider_than_the_cohort():
    """Slots that nobody fills, allocated all the same."""
    one = dataclasses.replace(TINY, backend=f"chunked:{HUGE}").build()
    assert one.sim.backend.name == "chunked:2"
