"""Crossings to the round: the same rounds, run again from the start or a checkpoint."""

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.papers.card import Column, Part
from fedjax_mos.lab.papers.refine import Keeper, crossings, refined, stop_of

COLUMNS = (Column("test_accuracy", target=0.7), Column("train_loss", target=0.5))
ORIGIN = {"command": "test"}


def part(columns, until_targets=False):
    """A part of which only the columns matter."""
    return Part("p", "P", {}, {}, (), columns, {}, until_targets=until_targets)


COARSE = fm.Experiment(
    algorithm="fedavg", clients=20, cohort=5, rounds=70, eval_every=5, seed=3,
    options={"lr": 0.03, "hidden": [8]},
)  # fmt: skip


def test_columns_that_a_run_does_not_have(tmp_path):
    """A target of a metric that was not measured ends the run."""
    frame = pd.DataFrame({"seed": 0, "round": [5, 10], "test_accuracy": [0.6, 0.7]})
    columns = (Column("train_dropout_loss", target=0.4), COLUMNS[0])
    assert Keeper(tmp_path, columns)(frame) is False
    assert stop_of(part(columns[1:], until_targets=True))(frame)
    assert not stop_of(part(columns, until_targets=True))(frame)
    assert crossings(frame, columns) == [10]
    assert refined(COARSE, 1, frame, part(columns[:1]), tmp_path, ORIGIN) is frame


@pytest.mark.thorough
@pytest.mark.parametrize("kept", [False, True])
def test_rounds_before_crossings_are_those_of_the_run(tmp_path, kept):
    """Rounds that are run again differ from the first time, or the wrong ones are."""
    import dataclasses

    stop = Keeper(tmp_path, COLUMNS) if kept else None
    every = 0.0 if kept else 60.0
    result = COARSE.run(
        2,
        out=tmp_path,
        progress=False,
        stop=stop,
        picture=False,
        checkpoint_every=every,
    )
    ends = crossings(result.by_seed, COLUMNS)
    assert len(ends) > 1 and ends[-1] - 20 > 20  # a checkpoint is worth keeping
    if kept:
        there = sorted(int(p.name) for p in (tmp_path / "kept").iterdir())
        for end in ends:
            assert any(end - 41 <= at <= end - 21 for at in [0, *there]), (ends, there)
        assert len(there) <= len(ends) + 5
    frame = refined(
        COARSE, 2, result.by_seed, part(COLUMNS), tmp_path, ORIGIN, progress=False
    )
    fine = dataclasses.replace(COARSE, eval_every=1).run(2, progress=False).by_seed
    for name in ("test_accuracy", "train_loss"):
        both = frame.merge(fine, on=["seed", "round"])
        known = both[f"{name}_x"].notna()
        assert known.sum() > 2 * 70 / 5 + 20
        # The file's digits are those of a float32, whatever they are read as.
        ours, theirs = (both[known][f"{name}_{x}"].astype(np.float32) for x in "xy")
        np.testing.assert_array_equal(ours, theirs)
    for end in ends:
        near = frame[frame["round"].between(end - 20, end)]
        assert near["test_accuracy"].notna().all()
    # The second time they are read.
    again = refined(
        COARSE, 2, result.by_seed, part(COLUMNS), tmp_path, ORIGIN, progress=False
    )
    np.testing.assert_allclose(frame["train_loss"], again["train_loss"], rtol=1e-6)
    assert not (tmp_path / "kept").exists()
    assert "test" in (tmp_path / "provenance.json").read_text()


@pytest.mark.thorough
def test_runs_end_where_every_target_is_reached(tmp_path):
    """A table that costs all rounds of a run, or misses the slowest seed's crossing."""
    columns = (Column("test_accuracy", target=0.6), Column("train_loss", target=0.9))
    whole = COARSE.run(2, progress=False).by_seed
    last = max(crossings(whole, columns))
    until = part(columns, until_targets=True)
    keeper = Keeper(tmp_path, columns, stop_of(until))
    call = {"out": tmp_path, "progress": False, "picture": False}
    found = COARSE.run(2, stop=keeper, **call).by_seed
    assert found["round"].max() == -(-last // 10) * 10 < COARSE.rounds
    assert crossings(found, columns) == crossings(whole, columns)
    assert stop_of(part(columns)) is None
    # The folder knows that it holds a run that was ended so.
    again = COARSE.run(2, stop=Keeper(tmp_path, columns, stop_of(until)), **call)
    assert again.complete and len(again.by_seed) == len(found)
    with pytest.raises(ValueError, match="stop"):
        COARSE.run(2, stop=Keeper(tmp_path, columns), **call)
    fine = refined(COARSE, 2, found, until, tmp_path, ORIGIN, progress=False)
    assert fine["test_accuracy"].notna().sum() > found["test_accuracy"].notna().sum()
