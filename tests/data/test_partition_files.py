"""Partitions written, and given to another experiment."""

import dataclasses

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.run_folder import repeated
from tests.lab.tiny import TINY

DIRICHLET = dataclasses.replace(TINY, partition="dirichlet", options={"alpha": 0.2})


def stores(experiment):
    return experiment.build().stores


@pytest.mark.parametrize("held_out", [0.0, 0.3])
def test_a_partition_comes_back_from_its_file(held_out, tmp_path):
    """Another experiment with the file has the same clients, example by example."""
    one = dataclasses.replace(DIRICHLET, held_out=held_out, data_seed=7)
    one.write_partition(tmp_path / "parts.npz")
    name = f"npz:{tmp_path / 'parts.npz'}"
    # The file decides, not the number or the rule that is usual.
    other = dataclasses.replace(one, partition=name, options={}, clients=None)
    assert stores(one).keys() == stores(other).keys()
    for store, theirs in zip(stores(one).values(), stores(other).values(), strict=True):
        np.testing.assert_array_equal(store.order, theirs.order)
        np.testing.assert_array_equal(store.size, theirs.size)


@pytest.mark.thorough
def test_a_run_with_a_file_is_repeated_from_its_configuration(tmp_path):
    """The path stands in config.json, and a changed file is noticed."""
    DIRICHLET.write_partition(tmp_path / "parts.npz")
    name = f"npz:{tmp_path / 'parts.npz'}"
    one = dataclasses.replace(DIRICHLET, partition=name, options={})
    first = one.run(out=tmp_path / "run", progress=False)
    same = DIRICHLET.run(progress=False)
    assert first.frame["test_loss"].equals(same.frame["test_loss"])
    again, *_ = repeated(tmp_path / "run" / "config.json")
    assert again.partition == name
    dataclasses.replace(DIRICHLET, data_seed=1).write_partition(tmp_path / "parts.npz")
    with pytest.raises(ValueError, match="data was .* and is "):
        one.run(out=tmp_path / "run", progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": np.array([0, 9999])}, r"order .* must lie in \[0, 1077\]"),
        ({"order": np.array([0.5, 1.0])}, "order .* list of integers.* float64"),
        ({"size": np.array([[1]])}, r"size .* list of integers.* \(1, 1\)"),
        ({"size": np.array([5])}, "must sum to"),
        ({"size": np.array([2, 0])}, "client 1 has none"),
    ],
)
def test_a_file_of_something_else_is_refused(change, message, tmp_path):
    """A wrong number in a file is no other partition."""
    parts = {"order": np.array([0, 1]), "size": np.array([1, 1])} | change
    np.savez(tmp_path / "parts.npz", **parts)
    name = f"npz:{tmp_path / 'parts.npz'}"
    wrong = dataclasses.replace(TINY, clients=None, partition=name)
    with pytest.raises(ValueError, match=message):
        wrong.build()


def test_a_missing_file_is_named(tmp_path):
    """The argument and the path stand in the message."""
    absent = dataclasses.replace(TINY, partition=f"npz:{tmp_path}/absent.npz")
    with pytest.raises(ValueError, match="partition must be npz:PATH .*absent.npz"):
        absent.build()
    (tmp_path / "text.npz").write_text("no archive")
    text = dataclasses.replace(TINY, partition=f"npz:{tmp_path}/text.npz")
    with pytest.raises(ValueError, match="partition must be npz:PATH .*text.npz"):
        text.build()


def test_fm_reads_what_numpy_writes(tmp_path):
    """A partition from elsewhere needs two arrays and nothing of ours."""
    order, size = np.arange(1078)[::-1], np.array([1000, 78])
    np.savez(tmp_path / "own.npz", order=order, size=size)
    one = fm.Experiment(partition=f"npz:{tmp_path}/own.npz", cohort=2)
    np.testing.assert_array_equal(one.build().data.order, order)
