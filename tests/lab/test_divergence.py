"""A run whose numbers are no longer finite says so everywhere."""

import dataclasses
import json

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.cli import main
from fedjax_mos.engine.checkpoints import Checkpoints
from tests.lab.tiny import TINY

WILD = dataclasses.replace(TINY, model="mlp", rounds=30, options={"lr": 1e30})
CALM = dataclasses.replace(TINY, model="mlp", rounds=30)


@pytest.fixture(scope="module")
def wild():
    return WILD.run(2, progress=False)


def test_a_diverged_run_stops(wild, tmp_path):
    """At the block where it happened, marked from its round on; and it is complete."""
    frame = wild.frame
    assert frame["round"].max() == 10 and wild.complete
    assert frame.groupby("seed")["diverged"].any().all()
    for _, run in frame.groupby("seed"):
        assert run["diverged"].is_monotonic_increasing
    assert not CALM.run(progress=False).frame["diverged"].any()


def test_files_say_so_in_valid_json(wild, tmp_path):
    """JSON has no NaN; the summary names round, likely cause and what is left."""
    wild.write(tmp_path)
    (told, _) = json.loads((tmp_path / "summary.json").read_text())
    assert told["last_good_checkpoint"] is None
    Checkpoints(tmp_path / "checkpoints").save(7, {"a": np.ones(2)}, {}, [])
    wild.write(tmp_path)

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    text = (tmp_path / "summary.json").read_text()
    summary = json.loads(text, parse_constant=refuse)
    assert all(run["diverged_at"] >= 1 for run in summary)
    assert all("lr = 1e+30" in run["likely_cause"] for run in summary)
    assert summary[0]["last_good_checkpoint"] == "checkpoints/00000007"
    assert fm.read(tmp_path).diverged == wild.diverged


def test_tables_and_pictures_say_so(wild):
    """No mean of survivors, and a cross where the line ends."""
    both = fm.Comparison({"wild": wild, "calm": CALM.run(2, progress=False)})
    text = both.text()
    assert "diverged (2/2 seeds, round" in text and "step size is too large" in text
    assert np.isnan(both.table().loc["wild", "final"])
    assert list(both.diverged) == ["wild"]
    caption = both.curves().get_supxlabel()
    assert "cross" in caption


def test_one_of_several_lanes_does_not_stop_the_others():
    """A sweep marks the configuration; the others are those of runs alone."""
    cube = fm.sweep(CALM, lr=[0.1, 1e30], seeds=2, progress=False)
    cells = cube.cells()
    assert cells["diverged"].tolist() == [0, 2]
    calm = dataclasses.replace(CALM, options={"lr": 0.1}).run(2, progress=False)
    ours = cube.frame[cube.frame["lr"] == 0.1]
    np.testing.assert_allclose(ours["test_loss"], calm.frame["test_loss"], rtol=1e-5)
    assert "1 configurations have runs that diverged" in cube.text()


def test_the_command_line_ends_with_its_own_status(tmp_path, capsys):
    """3, with the round and what to try."""
    words = "run --rounds 30 --clients 6 --cohort 2 --set lr=1e30 --algorithm fedavg"
    with pytest.raises(SystemExit) as end:
        main([*words.split(), "--out", str(tmp_path / "out")])
    assert end.value.code == 3
    out, err = capsys.readouterr()
    assert "diverged (round" in out and "Try a smaller step size" in err


def test_a_line_ends_with_the_first_seed_that_diverged():
    """Also in the panel of the loss, whose last values are missing numbers."""
    frame = CALM.run(3, progress=False).frame
    lost = (frame["seed"] == 1) & (frame["round"] >= 5)
    frame.loc[lost, ["train_loss", "test_loss"]] = np.nan
    frame.loc[lost, "diverged"] = True
    figure = fm.Result(CALM, frame, {}).curves()
    for axis in figure.axes:
        line, cross = axis.lines
        assert max(line.get_xdata()) == 4 and cross.get_marker() == "x"


def test_a_summary_has_no_number_of_before(wild):
    """Nor an accuracy, which argmax gives of anything."""
    for run in wild.summary():
        assert np.isnan(run["final"]) and np.isnan(run["final_test_loss"])
