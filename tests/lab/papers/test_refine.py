"""Crossings to the round: the same rounds, run again from the start or a checkpoint."""

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.papers.card import Column
from fedjax_mos.lab.papers.refine import Keeper, crossings, refined

COLUMNS = (Column("test_accuracy", target=0.7), Column("train_loss", target=0.5))
ORIGIN = {"command": "test"}
COARSE = fm.Experiment(
    algorithm="fedavg", clients=20, cohort=5, rounds=70, eval_every=5, seed=3,
    options={"lr": 0.03, "hidden": [8]},
)  # fmt: skip


def test_columns_that_a_run_does_not_have(tmp_path):
    """A target of a metric that was not measured ends the run."""
    frame = pd.DataFrame({"seed": 0, "round": [5, 10], "test_accuracy": [0.6, 0.7]})
    columns = (Column("train_dropout_loss", target=0.4), COLUMNS[0])
    assert Keeper(tmp_path, columns)(frame) is False
    assert crossings(frame, columns) == [10]
    assert refined(COARSE, 1, frame, columns[:1], tmp_path, ORIGIN) is frame


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
        COARSE, 2, result.by_seed, COLUMNS, tmp_path, ORIGIN, progress=False
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
        COARSE, 2, result.by_seed, COLUMNS, tmp_path, ORIGIN, progress=False
    )
    np.testing.assert_allclose(frame["train_loss"], again["train_loss"], rtol=1e-6)
    assert not (tmp_path / "kept").exists()
    assert "test" in (tmp_path / "provenance.json").read_text()
