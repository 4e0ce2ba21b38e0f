"""The data of an experiment: a data set divided among clients."""

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import fedjax_mos as fm
from fedjax_mos.lab.population import population_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = RNG.permutation(np.arange(60) % 3)
DATA = fm.arrays(X, Y, X[:20], Y[:20], x_valid=X[:10], y_valid=Y[:10])
SIX = fm.partitions.iid(Y, 6, seed=0)


def people(dataset=DATA, **given):
    return population_of(fm.Experiment(dataset=dataset, cohort=2, **given))


def test_a_data_set_is_divided():
    """Training data by the partition, the other parts whole; nothing normalised."""
    found = people(
        clients=5, partition="dirichlet", options={"alpha": 0.5}, data_seed=7
    )
    part = fm.partitions.dirichlet(Y, 5, 7, alpha=0.5)
    np.testing.assert_array_equal(found.train.order, part.order)
    assert found.clients == 5 and found.outputs == 3
    assert [s.size.sum() for s in found.stores.values()] == [60, 20, 10]
    assert list(found.stores) == ["train", "test", "valid"]
    assert found.normalise(X) is X


def test_a_generator_takes_the_number_of_clients():
    """Synthetic data have as many clients as the experiment says."""
    assert people("synthetic", clients=7).clients == 7
    assert people("synthetic").clients == 30


def test_named_data_are_kept_for_the_next_experiment():
    """Members of a comparison share one population; an array is a number there."""
    first, same, other = (
        people("digits", partition="dirichlet", options={"alpha": alpha})
        for alpha in (0.5, jnp.float32(0.5), 0.25)
    )
    assert first is same and other is not first


@pytest.mark.parametrize(
    ("y", "outputs"),
    [
        (Y, 3),
        (Y / 2, 1),
        (np.stack([Y, Y], 1) / 2, 2),
        (np.stack([Y, Y], 1), 2),  # two numbers each, not classes
    ],
)
def test_outputs_are_classes_or_the_numbers_of_a_label(y, outputs):
    """A model of the wrong width, however the data were given."""
    divided = fm.federate(X, y, SIX)
    assert people(fm.arrays(X, y, X, y), partition="iid", clients=6).outputs == outputs
    assert people(divided).outputs == outputs
    assert people({"train": divided, "test": fm.federate(X, y)}).outputs == outputs


def test_a_partition_may_be_a_function_or_what_it_returned():
    """Both must give the same clients."""
    made = people(partition=SIX)
    same = people(partition=fm.partitions.iid, clients=6)
    np.testing.assert_array_equal(made.train.order, same.train.order)
    assert made.clients == 6


@pytest.mark.parametrize(
    ("dataset", "given", "message"),
    [
        (DATA, {"partition": "natural"}, "natural needs an id per example, which own"),
        (DATA, {"partition": SIX, "clients": 5}, "clients must be 6, .*: got 5"),
        (fm.federate(X, Y, SIX), {"clients": 5}, "clients must be 6, .*: got 5"),
        (fm.federate(X, Y, SIX), {"partition": "iid"}, "must not be given with data"),
        ({"test": fm.federate(X, Y)}, {}, "dataset must have a part train: got test"),
    ],
)
def test_what_does_not_fit_is_refused(dataset, given, message):
    """Clients would silently be others than those asked for."""
    with pytest.raises(ValueError, match=message):
        people(dataset, **given)


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_files_that_change_are_read_again(kind, tmp_path):
    """A notebook that goes on with the data of a file's earlier content."""
    for test in (False, True):
        path = write(kind, tmp_path, test)
        assert (
            int(np.asarray(people(f"{kind}:{path}", clients=2).train.x).max()) == test
        )


def write(kind, folder, value):
    """Black or nearly black images, as a file or a folder."""
    if kind == "npz":
        x, y = np.full((8, 2, 2, 1), value, np.uint8), np.arange(8) % 2
        np.savez(folder / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y)
        return folder / "a.npz"
    for number, part in enumerate(("train", "test") * 8):
        there = folder / part / f"class{number % 4 // 2}"
        there.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(np.full((2, 2), value, np.uint8))
        image.save(there / f"{number}.png")
    return folder
