"""Runs that end early, alone or as lanes of one program."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.run_folder import RunFolder, repeated
from fedjax_mos.lab.stopping import LaneStop, stop_of
from tests.lab.tiny import TINY

ROUNDS = np.arange(1, 36)


def frame(rounds=35, every=1):
    """Two lanes, whose accuracy rises by 0.01 or 0.02 in a round."""
    lanes = []
    for lane, rate in enumerate((0.01, 0.02)):
        value = np.where(ROUNDS % every == 0, rate * ROUNDS, np.nan)
        rows = {"lane": lane, "round": ROUNDS, "test_accuracy": value}
        lanes.append(pd.DataFrame(rows | {"diverged": False}))
    found = pd.concat(lanes, ignore_index=True)
    return found[found["round"] <= rounds].reset_index(drop=True)


def ends(found):
    return found.groupby("lane")["round"].max().tolist()


def test_every_lane_stops_by_itself():
    """A lane that goes on because another does, or ends because another has."""
    seen = []

    def stop(rows):
        seen.append((len(rows), list(rows)))
        return rows["test_accuracy"].iloc[-1] >= 0.2

    both = LaneStop(stop)
    assert not both(frame(10))  # 0.1 and 0.2
    assert both.ends == {1: 10}
    assert both(frame(20))
    assert [count for count, _ in seen] == [10, 10, 20]  # who has ended is not asked
    assert "lane" not in seen[0][1]
    assert ends(both.until(frame())) == [20, 10]


def test_a_resumed_piece_ends_the_same():
    """Blocks before the checkpoint, of which nobody is asked again."""
    resumed = LaneStop(stop_of(0.2, None))
    assert resumed(frame(30))
    assert resumed.ends == {0: 20, 1: 10}
    late = LaneStop(stop_of(0.2, None))
    assert ends(late.until(frame())) == [20, 10]


def test_lanes_are_asked_when_there_is_news():
    """Blocks in which nothing was evaluated; the end, which is none."""
    some = LaneStop(stop_of(0.2, None))
    some(frame(every=15))
    assert some.ends == {0: 30, 1: 20}
    assert ends(LaneStop(stop_of(0.99, None)).until(frame())) == [35, 35]


LONG = dataclasses.replace(TINY, rounds=40, eval_every=5)


def after_twenty(rows):
    return rows["round"].max() >= 20


@pytest.mark.thorough
def test_a_function_ends_runs_of_sweeps_and_comparisons(tmp_path):
    """`stop` reaches every way of running; another function is another study."""
    call = {"progress": False, "stop": after_twenty}
    swept = fm.sweep(LONG, lr=[0.1, 0.2], out=tmp_path, **call)
    assert swept.complete and swept.frame["round"].max() == 20
    compared = fm.compare({"a": LONG}, 2, **call)
    assert compared.complete and compared.frame["round"].max() == 20
    with pytest.raises(ValueError, match="stop"):
        fm.sweep(LONG, lr=[0.1, 0.2], out=tmp_path, progress=False)


def test_who_stops_a_run_belongs_to_its_folder(tmp_path):
    """A run that was ended by another function, read as the run of this one."""
    RunFolder(tmp_path, TINY, None, stop=after_twenty)
    RunFolder(tmp_path, TINY, None, stop=after_twenty)
    with pytest.raises(ValueError, match="stop.hash was"):
        RunFolder(tmp_path, TINY, None, stop=lambda rows: True)
    with pytest.raises(ValueError, match=r"objects given in Python \(stop\)"):
        repeated(tmp_path / "config.json")


def test_who_only_looks_decides_nothing(tmp_path):
    """A folder that is refused because somebody watches the run."""

    class Looks:
        decides = None

        def __call__(self, frame):
            return False

    RunFolder(tmp_path, TINY, 1)
    RunFolder(tmp_path, TINY, 1, stop=Looks())
    with pytest.raises(ValueError, match="stop was None"):
        RunFolder(tmp_path, TINY, 1, stop=lambda frame: False)
