"""Pandas frames as data sets."""

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm

FRAME = pd.DataFrame(
    {
        "who": ["eve", "bob", "eve", "ann", "bob", "eve", "ann", "bob", "eve", "ann"],
        "a": np.arange(10),
        "kind": list("yxyxzxyzxy"),
        "b": np.linspace(0, 1, 10),
    }
)
X = FRAME[["a", "b"]].to_numpy(np.float32)
KIND = np.array([1, 0, 1, 0, 2, 0, 1, 2, 0, 1])  # x, y, z


def rows(part):
    """Which rows of the frame a part consists of."""
    return part.x[:, 0].astype(int)


def test_a_fraction_is_held_out():
    """Rows would be lost, shared, or torn from their label and client."""
    data = fm.from_frame(FRAME, "kind", "who", test=0.3)
    train, test = rows(data.train), rows(data.test)
    assert sorted([*train, *test]) == list(range(10)) and len(test) == 3
    assert (np.diff(train) > 0).all()
    for part, at in ((data.train, train), (data.test, test)):
        np.testing.assert_array_equal(part.x, X[at])
        np.testing.assert_array_equal(part.y, KIND[at])
        assert part.x.dtype == np.float32
    assert data.classes == 3 and data.mean is None
    # Clients are numbered as they appear, and each number is one client.
    who = FRAME["who"].to_numpy()[train]
    assert data.groups.tolist() == [list(dict.fromkeys(who)).index(w) for w in who]


def test_the_seed_decides_what_is_held_out():
    """A run could not be repeated, or all would hold out the same rows."""
    first, same, other = (
        rows(fm.from_frame(FRAME, "kind", "who", test=0.5, seed=s).test).tolist()
        for s in (0, 0, 1)
    )
    assert first == same != other


def test_a_frame_is_the_test_set():
    """Another frame is tested on as it is, in the training set's numbering."""
    held = pd.DataFrame({"b": [5.0, 6.0], "kind": ["z", "x"], "a": [7, 8]})
    data = fm.from_frame(FRAME, "kind", "who", test=held)
    np.testing.assert_array_equal(data.train.x, X)
    np.testing.assert_array_equal(data.test.x, [[7, 5], [8, 6]])
    assert data.test.y.tolist() == [2, 0]
    assert data.groups.tolist() == [0, 1, 0, 2, 1, 0, 2, 1, 0, 2]


@pytest.mark.parametrize("label", ["a", "b"])
def test_numbers_are_labels_as_they_are(label):
    """Integers are classes, floats are values to predict."""
    data = fm.from_frame(FRAME, label, features=["b" if label == "a" else "a"])
    whole = np.concatenate([data.train.y, data.test.y])
    np.testing.assert_allclose(np.sort(whole), FRAME[label])
    assert data.classes == (10 if label == "a" else None)
    assert data.groups is None and data.train.x.shape == (8, 1)


def test_an_index_does_not_matter():
    """A frame that was filtered or sorted has labels for rows that are not places."""
    shuffled = FRAME.set_index(pd.Index([3] * 10))
    plain, other = (fm.from_frame(f, "kind", "who") for f in (FRAME, shuffled))
    np.testing.assert_array_equal(plain.train.x, other.train.x)
    np.testing.assert_array_equal(plain.groups, other.groups)


def test_clients_of_a_frame_are_those_of_the_experiment():
    """One client per value of the column, without saying so twice."""
    data = fm.from_frame(FRAME, "kind", "who", test=0.2)
    people = fm.Experiment(dataset=data, cohort=2, model="logistic").build()
    assert people.data.size.tolist() == np.bincount(data.groups).tolist()


GONE = FRAME.assign(kind=FRAME["kind"].where(FRAME["a"] != 3))
LOST = FRAME.assign(who=FRAME["who"].where(FRAME["a"] > 1))
TWICE = pd.concat([FRAME, FRAME[["a"]]], axis=1)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            FRAME,
            {"label": "sort"},
            r"frame must have the columns \['sort'\]: got \['who",
        ),
        (FRAME, {"client": "user"}, r"frame must have the columns \['user'\]: got"),
        (FRAME, {"features": ["c"]}, r"frame must have the columns \['c'\]: got"),
        (
            FRAME,
            {"label": "a", "features": ["a", "b"]},
            "features must not name the label: got 'a' among them",
        ),
        (FRAME, {"features": []}, "features must name at least one column: got none"),
        (
            FRAME,
            {"client": None},
            r"features must be numeric columns: got \{'who': '\w+'\}; encode them",
        ),
        (FRAME, {"test": 0.0}, "leaves rows on both sides of the 10: got 0.0"),
        (FRAME, {"test": 1.0}, "leaves rows on both sides of the 10: got 1.0"),
        (
            FRAME,
            {"test": FRAME.drop(columns="b")},
            r"test must have the columns \['b'\]",
        ),
        (
            FRAME,
            {"test": FRAME.assign(kind="w")},
            r"test must have labels of frame: got \['w'\] besides",
        ),
        (GONE, {}, "label must be given in every row: got 1 missing values .* 'kind'"),
        (LOST, {}, "client must be given in every row: got 2 missing values .* 'who'"),
        (TWICE, {}, "frame must name its columns differently: got"),
        (
            FRAME.assign(b=np.nan),
            {},
            "x_train must be finite: example 0 has a NaN",
        ),
    ],
)
def test_bad_frames_are_refused(frame, options, message):
    """A wrong column would train on nonsense, or fail far from its name."""
    given = {"label": "kind", "client": "who", "test": 0.5} | options
    with pytest.raises(ValueError, match=message):
        fm.from_frame(frame, **given)
