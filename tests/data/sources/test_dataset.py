"""Your own arrays as a data set: what is kept, computed and refused."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.sources import arrays, normalise

X = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4)
Y = np.array([0, 1, 2, 0, 1, 2])


def test_own_arrays():
    """Own byte images would lose their channel axis, statistics or groups."""
    data = arrays(X[:4], Y[:4], X[4:], Y[4:], groups=np.array([5, 5, 7, 7]))
    assert data.train.x.shape == (4, 4, 4, 1) and data.classes == 3
    np.testing.assert_allclose(data.mean, [X[:4].mean()], rtol=1e-6)
    np.testing.assert_allclose(data.std, [X[:4].std()], rtol=1e-6)
    assert data.groups.tolist() == [5, 5, 7, 7]


def test_own_floats_are_taken_as_they_are():
    """Prepared features would be normalised a second time."""
    data = arrays(X / 7.0, Y, X / 7.0, Y, classes=5)
    assert data.train.x.shape == (6, 4, 4) and data.train.x.dtype == np.float64
    assert (data.mean, data.std, data.classes) == (None, None, 5)
    x = data.train.x
    assert normalise(data)(x) is x


def test_statistics_per_channel_and_constant_channels():
    """Channels would share statistics, or a constant one would divide by zero."""
    x = np.random.default_rng(0).integers(0, 256, (2100, 3, 3, 3), dtype=np.uint8)
    x[..., 1] = 9
    data = arrays(x, np.arange(2100) % 2, x, np.arange(2100) % 2)
    np.testing.assert_allclose(data.mean, x.mean(axis=(0, 1, 2)), rtol=1e-5)
    expected = x.std(axis=(0, 1, 2))
    expected[1] = 1
    np.testing.assert_allclose(data.std, expected, rtol=1e-5)


F = X.astype(np.float32)
NAN = np.where(np.arange(6)[:, None, None] == 3, np.nan, F)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": Y / 1.0}, "y_train must hold integer labels: got dtype float64"),
        ({"y_train": Y > 1}, "y_train must hold integer labels: got dtype bool"),
        ({"y_train": Y.astype(str)}, "y_train must hold numbers: got dtype <U"),
        ({"y_train": Y - 1}, r"y_train must lie in \[0, 2\]: example 0 has label -1"),
        ({"y_test": Y + 1}, r"y_test must lie in \[0, 2\]: example 2 has label 3"),
        ({"y_train": Y[:5]}, r"y_train must have shape \[6\].*got \(5,\)"),
        ({"y_train": Y[0]}, r"y_train must have shape \[6\].*got \(\)"),
        (
            {"y_train": Y[:, None]},
            r"y_test must have the shape and kind of y_train's labels, \(1,\) int64: "
            r"got \(\) int64",
        ),
        (
            {"y_train": Y / 1.0, "classes": None},
            r"y_test must have .* y_train's labels, \(\) float64: got \(\) int64",
        ),
        ({"y_train": np.where(Y, Y, np.nan)}, "y_train must be finite: example 0"),
        ({"x_train": NAN}, "x_train must be finite: example 3 has a NaN"),
        ({"x_test": F[:, :3]}, r"x_test must have .*\(4, 4\) float32: got \(3, 4\)"),
        ({"x_test": F[:0], "y_test": Y[:0]}, "x_test must not be empty"),
        ({"x_train": F.astype(str)}, "x_train must hold integers or floats"),
        ({"x_train": F[:, 0, 0]}, r"x_train must have shape \[n, ...\]: got \(6,\)"),
        ({"classes": 1}, "classes must be at least 2: got 1"),
        ({"std": 1.0}, "mean and std must be given together"),
        ({"mean": 0.0, "std": 0.0}, "std must be positive: got 0"),
        ({"mean": [0.0, 1.0], "std": 1.0}, r"mean must be .*\(4,\).*got \(2,\)"),
        ({"x_valid": F}, "x_valid and y_valid must be given together"),
        ({"groups": Y[:5]}, r"groups must hold one integer.*got shape \(5,\)"),
    ],
)
def test_bad_arrays_are_refused(change, message):
    """Bad data would reach training, or the error would not name the argument."""
    good = {"x_train": F, "y_train": Y, "x_test": F, "y_test": Y, "classes": 3}
    arrays(**good)
    with pytest.raises(ValueError, match=message):
        arrays(**good | change)


# ---- trees and labels of any kind ----------------------------------------------------


def table(n=6):
    """Inputs of two kinds: bytes with a channel axis to add, and a number each."""
    return {"image": X[:n], "age": np.linspace(0, 1, n, dtype=np.float32)}


def test_inputs_may_be_a_tree():
    """Every leaf by its own kind: bytes are normalised, floats are not."""
    data = arrays(table(4), Y[:4], table(2), Y[:2])
    assert data.train.x["image"].shape == (4, 4, 4, 1)
    assert data.train.x["age"].shape == (4,) and data.classes == 3
    assert data.mean["age"] is None and data.std["age"] is None
    np.testing.assert_allclose(data.mean["image"], [X[:4].mean()], rtol=1e-6)
    out = normalise(data)(data.train.x)
    assert out["age"] is data.train.x["age"]
    assert abs(out["image"].mean()) < 1e-5 and abs(out["image"].std() - 1) < 1e-5
    given = {"image": 1.0, "age": 2.0}
    data = arrays(table(), Y, table(), Y, mean=given, std=given)
    np.testing.assert_allclose(
        normalise(data)(data.train.x)["age"], table()["age"] / 2 - 1
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_test": X}, r"x_test must have the parts \[\"x\['age'\]\".*: got \['x'\]"),
        ({"x_train": {}}, "x_train must hold an array: got {}"),
        (
            {"x_train": table() | {"age": np.full(6, np.nan)}},
            r"x_train\['age'\] must be finite: example 0",
        ),
        (
            {"x_train": table() | {"age": np.ones(5)}},
            r"y_train must have shape \[5\].* per row of x_train\['age'\]: got \(6,\)",
        ),
        (
            {"x_test": table() | {"age": np.ones((6, 2))}},
            r"x_test\['age'\] must have .* of x_train\['age'\]'s .*, \(\) float32",
        ),
        ({"mean": 0.0, "std": 1.0}, "mean and std must have the structure of x_train"),
    ],
)
def test_bad_trees_are_refused(change, message):
    """An error must say which part of a tree is wrong."""
    good = {"x_train": table(), "y_train": Y, "x_test": table(), "y_test": Y}
    with pytest.raises(ValueError, match=message):
        arrays(**good | change)


@pytest.mark.parametrize(
    "y", [Y / 2.0, Y[:, None] / 2.0, Y[:, None]], ids=["floats", "column", "integers"]
)
def test_labels_that_are_no_classes_are_kept(y):
    """A regression's targets would be cast to integers or refused."""
    data = arrays(F, y, F, y)
    assert data.classes is None and data.train.y.dtype == y.dtype
    np.testing.assert_array_equal(data.test.y, y)


def test_a_tree_and_float_labels_reach_the_client():
    """arrays -> federate -> take: every leaf's own rows, and their labels."""
    x, y = table(), np.arange(6) / 4
    data = arrays(x, y.astype(np.float32), x, y.astype(np.float32))
    store = fm.federate(*data.train, fm.partitions.iid(y, 2, seed=0))
    rows = store.order[store.offset[1] :]
    batch = fm.data.take(store, jax.numpy.append(rows, -1))
    assert batch.mask.tolist() == [True] * 3 + [False]
    at = np.append(rows, rows.max())  # padding repeats an own example
    np.testing.assert_array_equal(batch.x["age"], x["age"][at])
    np.testing.assert_array_equal(batch.x["image"], X[at][..., None])
    np.testing.assert_array_equal(batch.y, y[at].astype(np.float32))
    assert batch.x["image"].dtype == np.uint8 and batch.y.dtype == np.float32
