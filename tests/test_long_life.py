"""Long runs and long sessions: memory stays where it was."""

import dataclasses
import gc
from pathlib import Path

import pytest

from tests.lab.tiny import TINY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="memory is read from /proc"
    ),
]


def memory():
    """Megabytes that this process holds."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


def maps():
    """Memory maps of this process, of which it may have some 65,000."""
    return len(Path("/proc/self/maps").read_text().splitlines())


def test_ten_thousand_rounds_need_the_memory_of_one_thousand():
    """Histories grow by their numbers only."""
    seen = {}

    def note(frame):
        if len(frame) in (1_000, 10_000 - 10):
            seen[len(frame)] = memory()
        return False

    long = dataclasses.replace(TINY, rounds=10_000, eval_every=10)
    result = long.run(progress=False, stop=note)
    first, last = seen.values()
    print(f"{first:.0f} MB after 1,000 rounds, {last:.0f} MB after 10,000")
    assert len(result.frame) == 10_000
    assert last < 1.02 * first


def test_three_hundred_programs_in_one_process():
    """A session of many structures keeps the latest and lets the others go."""
    seen = []
    for batch_size in range(1, 301):
        one = dataclasses.replace(TINY, batch_size=batch_size, rounds=1)
        one.run(progress=False)
        if batch_size % 100 == 0:
            seen.append((memory(), maps()))
    print([f"{mb:.0f} MB, {count} maps" for mb, count in seen])
    (_, _), (middle, _), (last, count) = seen
    assert count < 30_000
    assert last < 1.1 * middle
