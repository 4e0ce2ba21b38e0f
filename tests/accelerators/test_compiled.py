"""Blocks of rounds as the compiler of TPUs makes them, for one chip and for sixteen."""

import importlib.util
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from fedjax_mos.lab import catalog

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None,
    reason="libtpu, the compiler of TPUs, is not installed",
)
TELLING = ("fedavg", "fedmos", "scaffold", "fedcams", "fedbnlaca", "stem")
EVERYBODY = ("lag", "lag_ps")  # whose cohort is all clients
ALGORITHMS = [
    pytest.param(
        name, marks=pytest.mark.thorough if name in TELLING else pytest.mark.slow
    )
    for name in catalog.ALGORITHMS
]
MACHINES = ("v5e-1", "v5e-16")
PROGRAM = """
import json, sys
import accelerators, structures
for machine in sys.argv[2:]:
    made = structures.algorithm(sys.argv[1], machine)
    print("row", json.dumps(accelerators.measured("block", made)))
"""


@cache
def rows(name):
    """What the compiler says, machine by machine, in a process of its own."""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "benchmarks"), str(root)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, *MACHINES],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = [n.removeprefix("row ") for n in done.stdout.splitlines() if "row {" in n]
    return dict(zip(MACHINES, map(json.loads, found), strict=True))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_block_stays_on_its_chips(name, machine):
    """A visit to the host in a round, double precision, or a state that is copied."""
    row = rows(name)[machine]
    assert row["host"] == 0
    assert row["float64"] == 0
    assert row["aliased"] >= row["state"]
    assert row["step"] > 0 or name in EVERYBODY  # the loops were found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_chips_never_gather_all_rows(name):
    """Memory and traffic that grow with all clients instead of with a cohort's.

    The cohort is an eighth of the clients; a message may have several models' size.
    """
    one, several = (rows(name)[machine] for machine in MACHINES)
    assert not one["moved"]
    if name in EVERYBODY:
        return
    assert "all-reduce" in several["moved"]
    assert several["largest_gathered"] < several["rows"] / 2
