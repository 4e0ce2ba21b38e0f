"""Members of a comparison are compiled before the first one runs."""

import dataclasses

import pytest

import fedjax_mos as fm
from fedjax_mos.lab import compile_together as module
from fedjax_mos.lab.compile_together import compile_together
from tests.lab.test_programs import SMALL, counted

OTHER = dataclasses.replace(SMALL, algorithm="fedavgm", cohort=4)


@pytest.mark.thorough
def test_runs_find_everything_compiled():
    """After it no member traces or compiles anything, nor prints that it does."""
    members = [SMALL, OTHER, dataclasses.replace(SMALL, options={"lr": 0.3})]
    compile_together(members, seeds=2, progress=False)
    with counted() as seen:
        for member in members:
            member.run(2, progress=False)
    assert not seen


def test_results_are_those_of_members_alone():
    """A comparison's histories are the same as without it."""
    found = fm.compare({"a": SMALL, "b": OTHER}, seeds=2, progress=False)
    alone = OTHER.run(2, progress=False)
    assert (
        found.members["b"]
        .frame.drop(columns="seconds")
        .equals(alone.frame.drop(columns="seconds"))
    )


@pytest.mark.parametrize("members", [[SMALL], [SMALL, SMALL]])
def test_one_structure_is_left_to_its_run(members, capsys):
    """There is nothing to do at the same time."""
    compile_together(members, seeds=2)
    assert "compiling" not in capsys.readouterr().err


def test_large_states_start_one_by_one(monkeypatch, capsys):
    """Several of them at once might not fit the memory."""
    monkeypatch.setattr(module, "_MOST", 1000)
    compile_together([SMALL, OTHER], seeds=2)
    assert "compiling" not in capsys.readouterr().err
