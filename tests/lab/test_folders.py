"""Results on disk: `fm.read` brings back what was written, and refuses the rest."""

import dataclasses
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import folders
from fedjax_mos.lab.run_folder import repeated
from tests.lab import tiny

TINY = dataclasses.replace(tiny.TINY, options={"lr": fm.Schedule([0.3, 0.2])})


@pytest.fixture(scope="module")
def result():
    """Two rounds of two seeds with a step size of their own each."""
    return TINY.run(2, progress=False)


def same_trees(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_array_equal(mine, other)


def same_experiment(ours, theirs):
    """Equal in every field; schedules by value."""
    for field in dataclasses.fields(ours):
        if field.name != "options":
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            assert mine == other, field.name
    same_trees(dict(ours.options), dict(theirs.options))


def same_frames(ours, theirs):
    """Equal; a text file has no float32, but tells all of them apart."""
    ours = ours.reset_index(drop=True).astype(theirs.dtypes)
    theirs = theirs.reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, theirs, check_like=True, rtol=1e-12)


def test_a_result_comes_back(result, tmp_path):
    """Parameters, rows, title and experiment of a run are those that were written."""
    result.write(tmp_path, target=0.2)
    again = fm.read(str(tmp_path))
    assert isinstance(again, fm.Result) and again.complete and again.state is None
    same_trees(again.params, result.params)
    same_frames(again.frame, result.frame)
    same_experiment(again.experiment, TINY)
    assert again.name == result.name == "fedavg/ucs"
    for ours, theirs in zip(again.summary(0.2), result.summary(0.2), strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            near = pytest.approx(value, rel=1e-6) if type(value) is float else value
            assert ours[name] == near, name
    again.write(tmp_path / "twice", target=0.2)  # and can be written again
    same_frames(fm.read(tmp_path / "twice").frame, result.frame)


def test_orbax_reads_the_parameters(result, tmp_path):
    """A folder that other programs cannot read, or that has other numbers."""
    result.write_orbax(tmp_path / "orbax")
    like = jax.tree.map(jnp.zeros_like, result.params)
    with ocp.StandardCheckpointer() as checkpointer:
        found = checkpointer.restore(tmp_path / "orbax", like)
    same_trees(found, result.params)


def test_an_experiment_from_its_file_is_the_experiment(result, tmp_path):
    """What config.json describes gives the same numbers when it is run."""
    result.write(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert (stored["kind"], stored["seeds"], stored["own"]) == ("run", 2, [])
    assert stored["repeatable"] == "from this file"
    assert stored["experiment"]["options"] == {"lr": {"schedule": [0.3, 0.2]}}
    assert stored["options"]["algorithm"]["lr"] == {"schedule": [0.3, 0.2]}
    assert stored["components"]["partition"] == "classes"
    made, again = TINY.build(), fm.read(tmp_path).experiment.build()
    states = [one.start(jax.random.key(0))[0] for one in (made, again)]
    same_trees(*states)


def test_a_comparison_comes_back(result, tmp_path):
    """Every member of a comparison is read, under its own name and in its place."""
    other = dataclasses.replace(result, title="b/c")
    found = fm.Comparison({"z/a": dataclasses.replace(result, title="z/a"), "b": other})
    found.write(tmp_path, target=0.2)
    again = fm.read(tmp_path)
    assert isinstance(again, fm.Comparison) and list(again.members) == ["z/a", "b"]
    same_frames(again.frame, found.frame)
    assert again.frame["method"].unique().tolist() == ["z/a", "b"]
    assert again.text(0.2) == found.text(0.2)
    same_trees(again.members["b"].params, result.params)
    assert again.members["b"].name == "b" and again.complete


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep in pieces of one lane, and its folder."""
    out = tmp_path_factory.mktemp("swept") / "sweep"
    rates = [fm.Schedule([0.3, 0.2]), fm.Schedule([0.3, 0.1])]  # one program
    cube = fm.sweep(TINY, lr=rates, width=1, out=out, progress=False)
    return cube, out


def test_a_finished_sweep_comes_back(swept):
    """A folder of pieces is the cube that the sweep returned."""
    cube, out = swept
    again = fm.read(out)
    assert isinstance(again, fm.Cube) and again.complete and again.axes == ("lr",)
    same_frames(again.frame, cube.frame)
    same_experiment(again.experiment, TINY)
    labels = ["2 values 0.3 ... 0.2", "2 values 0.3 ... 0.1"]
    assert cube.frame["lr"].unique().tolist() == labels


def test_half_a_sweep_comes_back(swept, tmp_path):
    """A sweep that was stopped gives its finished pieces, and says that some lack."""
    cube, out = swept
    shutil.copytree(out, tmp_path / "half")
    (tmp_path / "half" / "pieces" / "00001.parquet").unlink()
    again = fm.read(tmp_path / "half")
    assert not again.complete
    same_frames(again.frame, cube.frame[cube.frame["configuration"] == 0])
    (tmp_path / "half" / "pieces" / "00000.parquet").unlink()
    with pytest.raises(ValueError, match="no finished piece yet"):
        fm.read(tmp_path / "half")


def test_a_sweep_from_memory_comes_back(swept, tmp_path):
    """A cube that is written by hand needs no pieces to be read."""
    cube, _ = swept
    numbers = fm.Cube(
        cube.frame[cube.frame["configuration"] == 0].assign(lr=0.1),
        cube.axes,
        False,
        TINY,
    )
    numbers.write(tmp_path, target=0.2)
    again = fm.read(tmp_path)
    assert isinstance(again, fm.Cube) and not again.complete
    pd.testing.assert_frame_equal(again.frame, numbers.frame.reset_index(drop=True))
    assert again.axes == ("lr",)
    same_experiment(again.experiment, TINY)


@pytest.mark.parametrize("value", [0.25, np.nan], ids=["finite", "diverged"])
def test_a_tuning_comes_back(value, tmp_path):
    """Numbers, schedules and every update are read, also one whose loss was not."""
    hp = {"lr": fm.Schedule(np.array([0.3, 0.2])), "server_lr": np.float32(0.5)}
    frame = pd.DataFrame(
        {
            "update": [0, 1],
            "from": ["start", "gradient"],
            "valid_loss": [0.5, value],
            "lr": [0.25, 0.26],
            "server_lr": [0.5, 0.5],
            "unstable": ["", "it grows" if np.isnan(value) else ""],
            "cost": [6, 12],
        }
    )
    tuned = fm.Tuned(TINY, hp, frame, "valid_loss", updates=3)
    tuned.write(tmp_path)
    again = fm.read(tmp_path)
    assert isinstance(again, fm.Tuned) and not again.complete
    pd.testing.assert_frame_equal(again.frame, frame)
    assert isinstance(again.hp["lr"], fm.Schedule)
    same_trees(again.hp, hp)
    same_experiment(again.experiment, TINY)
    same_experiment(repeated(tmp_path / "winner.json")[0], TINY)
    assert again.best == tuned.best == (0.5 if np.isnan(value) else 0.25)
    pd.testing.assert_frame_equal(again.table(), tuned.table())


def test_other_folders_are_refused(tmp_path):
    """A folder without results, with others' files or with broken ones is named."""
    with pytest.raises(ValueError, match="holds no results of fedjax_mos"):
        fm.read(tmp_path)
    with pytest.raises(ValueError, match="nowhere holds no results"):
        fm.read(tmp_path / "nowhere")
    for text in ("{", "{}", '{"kind": "thesis"}', "[1]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ValueError, match="holds no results of fedjax_mos"):
            fm.read(tmp_path)


@pytest.mark.parametrize("seeds", [None, 2])
def test_a_model_can_be_used_after_it_was_read(seeds, tmp_path):
    """Parameters are in a form that NumPy reads alone, and `apply` uses them."""
    result = TINY.run(seeds, progress=False)
    result.write(tmp_path)
    again = fm.read(tmp_path)
    x = np.asarray(TINY.build().stores["test"].x)[:5]
    outputs = np.asarray(again.apply(x))
    np.testing.assert_allclose(outputs, result.apply(x), rtol=1e-4, atol=1e-5)
    assert outputs.shape == ((2,) if seeds else ()) + (5, 10)
    with np.load(tmp_path / "params.npz") as file:
        assert all(name.startswith("params/") for name in file.files)
        total = sum(file[name].size for name in file.files)
    assert total == sum(leaf.size for leaf in jax.tree.leaves(result.params))


def test_types_that_numpy_lacks_are_written_as_the_same_numbers(tmp_path):
    """bfloat16 becomes float32."""
    tree = {"a": {"w": jnp.array([1.5, 2.0**-20], jnp.bfloat16)}, "b": jnp.ones(2)}
    folders.write_arrays(tmp_path / "some.npz", tree)
    again = folders.read_arrays(tmp_path / "some.npz")
    np.testing.assert_array_equal(again["a"]["w"], [1.5, 2.0**-20])
    assert again["a"]["w"].dtype == again["b"].dtype == np.float32
