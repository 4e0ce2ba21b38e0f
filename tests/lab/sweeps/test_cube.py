"""The cube's helpers, on numbers that a reader can check by hand."""

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm

# accuracy[configuration][seed][round]; the last configuration's second run diverges.
ACCURACY = [
    [[0.2, 0.6], [0.4, 0.8]],
    [[0.5, 0.5], [0.9, 0.7]],
    [[0.9, 0.9], [0.9, 0.0]],
]
LOSS = [[[2.0, 1.0], [2.0, 1.2]], [[2.0, 0.5], [2.0, 0.7]], [[1, 0.1], [1, np.nan]]]
CELLS = [(0.1, 1), (0.2, 1), (0.2, 5)]


@pytest.fixture
def cube():
    rows = [
        {
            "configuration": c,
            "lr": CELLS[c][0],
            "cohort": CELLS[c][1],
            "seed": s,
            "round": r + 1,
            "test_accuracy": ACCURACY[c][s][r],
            "train_loss": LOSS[c][s][r],
            "diverged": (c, s) == (2, 1),
        }
        for c in range(3)
        for s in range(2)
        for r in range(2)
    ]
    return fm.Cube(pd.DataFrame(rows), ("lr", "cohort"), complete=True)


def test_cells(cube):
    """Means over other rounds or seeds; a diverged run that is averaged away."""
    cells = cube.cells()
    assert cells.index.tolist() == [0, 1, 2]
    np.testing.assert_allclose(cells["mean"], [0.7, 0.6, np.nan])
    np.testing.assert_allclose(cells["std"], [0.02**0.5, 0.02**0.5, np.nan])
    assert cells["seeds"].tolist() == [2, 2, 2]
    assert cells["diverged"].tolist() == [0, 0, 1]


def test_best(cube):
    """The worst loss is the best, or a lucky survivor of a diverging cell."""
    best = cube.best()
    assert (best["lr"], best["cohort"], best["mean"]) == (0.1, 1, pytest.approx(0.7))
    assert cube.best("train_loss")["lr"] == 0.2
    frame = cube.frame.assign(valid_accuracy=-cube.frame["test_accuracy"])
    chosen = fm.Cube(frame, cube.axes, True).best()  # not by the test data
    assert (best["metric"], chosen["metric"]) == ("test_accuracy", "valid_accuracy")
    assert chosen["lr"] == 0.2 and chosen["cohort"] == 1
    hopeless = fm.Cube(cube.frame[cube.frame["configuration"] == 2], cube.axes, True)
    with pytest.raises(ValueError, match="diverged"):
        hopeless.best()
    with pytest.raises(ValueError, match="train_loss.*'accuracy'"):
        cube.best("accuracy")


def test_rounds_to_target(cube):
    """Runs that never reach the target, or that diverge, count as if they did."""
    table = cube.rounds_to_target(0.6)
    np.testing.assert_allclose(table["rounds_to_target"], [2, 1, 1])
    assert table["reached"].tolist() == [2, 1, 1]
    never = cube.rounds_to_target(0.95)
    assert never["rounds_to_target"].isna().all() and (never["reached"] == 0).all()
    assert cube.rounds_to_target(1.0, "train_loss")["reached"].tolist() == [1, 2, 1]


def test_rounds_may_be_an_axis(cube):
    """A table that cannot be made after everything has run."""
    frame = cube.frame.rename(columns={"cohort": "rounds"})
    table = fm.Cube(frame, ("lr", "rounds"), True).table(0.6)
    assert table["rounds"].tolist() == [1, 1, 5]


def test_heat_map(cube):
    """Values in the wrong cell, or a diverged one painted as if it were good."""
    figure = cube.heat_map()
    axis = figure.axes[0]
    (image,) = axis.images
    expected = [[70, 60], [np.nan, np.nan]]  # in percent
    np.testing.assert_allclose(image.get_array().filled(np.nan), expected)
    assert [t.get_text() for t in axis.get_xticklabels()] == ["0.1", "0.2"]
    assert [t.get_text() for t in axis.get_yticklabels()] == ["1", "5"]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("lr", "cohort")
    assert cube.heat_map("cohort", "lr").axes[0].get_xlabel() == "cohort"
    with pytest.raises(ValueError, match="lr, cohort: got prox"):
        cube.heat_map("prox")
    with pytest.raises(ValueError, match="two axes"):
        fm.Cube(cube.frame, ("lr",), True).heat_map()


def test_curves(cube):
    """Bands of other runs than the best cells'."""
    lines = cube.curves(top=1).axes[1].lines
    assert [line.get_label() for line in lines] == ["lr=0.1, cohort=1"]
    np.testing.assert_allclose(lines[0].get_ydata(), [0.3, 0.7])
    assert len(cube.curves().axes[1].lines) == 2  # no diverged one


def test_write(cube, tmp_path):
    """A file that the command line promises is missing or holds other numbers."""
    cube.write(tmp_path, target=0.6)
    names = {"config.json", "cube.parquet", "cells.csv"}
    names |= {"curves.png", "heat_map.png"}
    assert {path.name for path in tmp_path.iterdir()} == names
    again = pd.read_parquet(tmp_path / "cube.parquet")
    pd.testing.assert_frame_equal(again, cube.frame)
    cells = pd.read_csv(tmp_path / "cells.csv")
    assert cells["rounds_to_target"].tolist() == [2, 1, 1]
    np.testing.assert_allclose(cells["test_accuracy"], [0.7, 0.6, np.nan])
    hopeless = fm.Cube(cube.frame.assign(diverged=True), cube.axes, True)
    hopeless.write(tmp_path / "hopeless", target=0.6)
    written = {path.name for path in (tmp_path / "hopeless").iterdir()}
    assert written == {"config.json", "cube.parquet", "cells.csv"}


def test_rounds_are_whole_numbers(cube):
    """20.0+ and 1.0 of 5.0 seeds, because a row of a frame has floats only."""
    texts = [row["rounds to 95 %"] for row in cube.printed(0.95).rows]
    assert texts == ["2+", "2+", "2+"]
