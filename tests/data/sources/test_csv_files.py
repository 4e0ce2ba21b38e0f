"""CSV files: columns by name, clear words where one is wrong."""

import re

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.data.sources import files, load
from fedjax_mos.data.sources.named import is_grouped, said_of

HALVES = ["train", "train", "test", "test"] * 10  # with both labels


def frame(rows=40):
    """Owners a to d, two features of different scale, labels in words."""
    number = np.arange(rows)
    return pd.DataFrame(
        {
            "client": np.array(list("abcd"))[number % 4],
            "small": number / 10,
            "large": 1000.0 * number,
            "same": 5,
            "label": np.where(number % 2, "odd", "even"),
        }
    )


@pytest.fixture
def written(tmp_path):
    """Write a frame, give its path."""

    def write(table, name="some.csv"):
        path = tmp_path / name
        table.to_csv(path, index=False)
        return str(path)

    return write


def test_columns_by_their_usual_names(written):
    """Features are the others; owners become groups; a fifth is tested on."""
    data = load(written(frame()))
    assert data.train.x.shape == (32, 3) and data.test.x.shape == (8, 3)
    assert data.classes == 2 and len(set(data.groups.tolist())) == 4
    assert len(data.groups) == 32


def test_columns_by_other_names(written):
    """Any column may be the label, the owner or the split."""
    other = {"client": "who", "label": "parity"}
    table = frame().rename(columns=other).assign(part=HALVES)
    data = load(written(table), label="parity", client="who", split="part")
    assert len(data.train.y) == len(data.test.y) == 20
    assert data.classes == 2 and data.groups is not None and data.train.x.shape[1] == 3
    as_it_is = load(written(frame().assign(split=HALVES)))
    assert len(as_it_is.train.y) == 20


def test_features_are_brought_to_one_scale(written):
    """By the training rows; a column that never changes stays finite."""
    data = load(written(frame()))
    x = fm.data.normalise(data)(data.train.x)
    np.testing.assert_allclose(x[:, :2].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), [1, 1, 0], atol=1e-5)
    plain = load(written(frame()), normalise=False)
    assert plain.mean is None and plain.train.x.max() > 30_000


def test_owners_divide_the_data_by_default(written):
    """In files as in arrays: `natural` where owners are known, npz too."""
    path = written(frame())
    assert fm.Experiment(dataset=path).parts["partition"].name == "natural"
    lone = written(frame().drop(columns="client"), "lone.csv")
    assert fm.Experiment(dataset=lone).parts["partition"].name == "iid"
    other = written(frame().rename(columns={"client": "who"}), "other.csv")
    named = fm.Experiment(dataset=other, options={"client": "who"})
    assert named.parts["partition"].name == "natural"
    npz = path.replace("some.csv", "some.npz")
    arrays = {"x_train": np.ones((4, 2)), "y_train": [0, 1, 0, 1]}
    arrays |= {"x_test": np.ones((2, 2)), "y_test": [0, 1]}
    np.savez(npz, **arrays)
    assert not is_grouped(npz)
    np.savez(npz, **arrays, groups=[0, 0, 1, 1])
    assert is_grouped(npz) and not is_grouped("digits") and not is_grouped("no.npz")


def test_advice_needs_the_number_of_owners(written):
    """A threshold for 100 clients would be wrong for four."""
    advised = {"uplink": "nla", "options": {"kappa": "advice"}}
    with pytest.raises(ValueError, match="clients must be given"):
        fm.Experiment(dataset=written(frame()), **advised)
    fm.Experiment(dataset=written(frame()), clients=4, cohort=2, **advised)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.rename(columns={"label": "y"}), r"\['label'\].*--set label=NAME"),
        (lambda f: f.assign(large="word"), r"words in column 'large'$"),
        (lambda f: f.assign(large="w")[["large", "label"]], "--set client=large"),
        (
            lambda f: f.assign(small=f["small"].where(f.index != 3)),
            "nan in row 4 .*small",
        ),
        (lambda f: f.assign(label=f["label"].where(f.index != 3)), "label.*1 missing"),
        (lambda f: f.assign(client=f["client"].where(f.index != 3)), "missing"),
        (lambda f: f.assign(split="train"), "split must hold train and test"),
        (lambda f: f.assign(split=["train", "tset"] * 20), "train and test.*tset"),
        (lambda f: f[:1], "test must be a frame, or a fraction"),
        (lambda f: f[["client", "label"]], "features must name at least one column"),
        (lambda f: f.rename(columns={"same": ""}), "a name for every column"),
    ],
)
def test_what_is_wrong_is_said(written, change, message):
    """By the file and the column."""
    path = written(change(frame()))
    with pytest.raises(ValueError, match=message) as error:
        load(path)
    assert path in str(error.value)


def test_a_missing_owner_is_not_another_column(written):
    """Words in a feature are another matter, and so is the label."""
    with pytest.raises(ValueError, match=r"columns \['hospital'\]: got .*'large'") as e:
        load(written(frame().assign(large="word")), client="hospital")
    assert "words" not in str(e.value) and "--set label" not in str(e.value)


def test_whole_numbers_as_floats_are_perhaps_classes(written):
    """The labels 1.0 and 2.0 are values, for which there is another loss."""
    for label, advice in ((1.0, "write them as integers: 1, not 1.0"), (0.5, "try sq")):
        path = written(frame().assign(label=label))
        one = fm.Experiment(dataset=path, cohort=2, model=lambda outputs: None)
        with pytest.raises(ValueError, match=f"one integer label.*{advice}"):
            one.build()


def test_what_columns_are_taken_for_is_said(written):
    """A column that says whose a row is, under a name of its own, is a feature."""
    path = written(frame().rename(columns={"client": "site"}).assign(site=3))
    said = "features: site, small, large, same; clients: drawn \\(--set client=COLUMN"
    assert re.match(said, said_of(path))
    assert said_of(path, client="site").endswith("large, same; clients: by column site")
    wide = pd.DataFrame(np.zeros((3, 30)), columns=[f"c{i}" for i in range(30)])
    assert "c9, 20 more; clients" in said_of(written(wide.assign(label=0)))
    assert said_of("digits") is None


def test_rows_are_counted_as_they_are_read(tmp_path):
    """The number of a line that is somebody else's, behind blank or broken ones."""
    path = tmp_path / "some.csv"
    path.write_text('\nclient,a,label\n"north\neast",1,0\n\n\nsouth,,1\n')
    with pytest.raises(ValueError, match=r"nan in row 2 \(without .* blank lines"):
        load(str(path))


def test_files_that_are_no_csv(tmp_path):
    """Bytes, nothing, and nothing there."""
    path = tmp_path / "some.csv"
    for contents in (b"\xff\xfe\x00\x01", b"", b'a,b\n"1,2\n'):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match="some.csv"):
            load(str(path))
    with pytest.raises(FileNotFoundError, match="no file .*none.csv"):
        load(str(tmp_path / "none.csv"))
    with pytest.raises(ValueError, match="split must be a column"):
        load(f"csv:{_kept(tmp_path)}", split="part")


def _kept(folder):
    frame().to_csv(folder / "table.txt", index=False)
    return folder / "table.txt"


def test_files_that_fit_no_machine(written, monkeypatch):
    """The size is looked at before anything is read."""
    path = written(frame())
    monkeypatch.setattr(files, "machine_memory", lambda: 400)
    monkeypatch.setattr(pd, "read_csv", lambda *a, **k: pytest.fail("read"))
    with pytest.raises(ValueError, match="unpacks to more than"):
        load(path)


def test_other_files_point_to_pandas():
    """A name with another ending."""
    with pytest.raises(ValueError, match=r"some.xlsx.*fm\.from_frame"):
        fm.Experiment(dataset="some.xlsx")
