"""The one Experiment: its defaults, and that every name in the catalog runs."""

import dataclasses

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.partitions import histogram
from fedjax_mos.lab import catalog

# Compile time dominates: the shortest program, but for the test of all methods.
TINY = {
    "algorithm": "fedavg",
    "clients": 8,
    "cohort": 3,
    "rounds": 1,
    "steps": 2,
    "batch_size": 4,
    "model": "logistic",
}
# Options that fit eight clients and 1078 examples where the defaults do not.
FITTING = {"fedmos_cifar": {"sizes": (40, 20), "fractions": (0.5, 0.5)}}
# Methods whose clients send one uncompressed tree.
DENSE = ("fedavg", "fedmos", "fedmos_release")
SHAPES = {
    "cnn": (28, 28, 1),
    "fedmos_mnist_cnn": (28, 28, 1),
    "fedmos_cifar_cnn3": (32, 32, 3),
    "fedmos_cifar_lenet": (32, 32, 3),
    "resnet18": (32, 32, 3),
}


def some(table, *quick):
    """All names of a table; those that are not `quick` run with the slow tests."""
    return [
        pytest.param(name, marks=[] if name in quick else [pytest.mark.slow])
        for name in table
    ]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Forty random images of every shape a model was made for."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("images")
    y = np.arange(40) % 10
    names = {}
    for shape in set(SHAPES.values()):
        x = rng.integers(0, 256, (40, *shape), dtype=np.uint8)
        path = folder / f"{shape[0]}.npz"
        np.savez(path, x_train=x, y_train=y, x_test=x[:10], y_test=y[:10])
        names[shape] = f"npz:{path}"
    return names


@pytest.fixture(scope="module")
def reference(images):
    """A run to compare with, on few examples for the sake of the debug backend."""
    arguments = {**TINY, "sampler": "ucs", "dataset": images[28, 28, 1]}
    experiment = fm.Experiment(**arguments, backend="vmapped")
    return experiment.run(progress=False)


def check(result, rounds=1):
    """The history is complete, finite and counts what was sent."""
    history = result.frame
    assert history["round"].tolist() == list(range(1, rounds + 1))
    assert np.isfinite(history.to_numpy(float)).all()
    assert history["test_accuracy"].between(0, 1).all()
    if result.experiment.algorithm not in DENSE:
        return history
    size = sum(leaf.size for leaf in jax.tree.leaves(result.params))
    sent = history["bits_up"].diff().fillna(history["bits_up"]) / (32 * size)
    assert sent.between(0, result.experiment.cohort).all()
    assert (sent == sent.round()).all()
    return history


@pytest.mark.thorough
@pytest.mark.parametrize("partition", catalog.PARTITIONS)
def test_partition(partition):
    """A partition whose defaults or arguments no longer fit an experiment."""
    dataset = "synthetic" if partition == "natural" else "digits"
    options = FITTING.get(partition, {})
    experiment = fm.Experiment(
        **TINY, dataset=dataset, partition=partition, options=options
    )
    made = experiment.build()
    assert made.data.size.shape == (8,)
    assert int(made.data.size.min()) >= 1
    check(experiment.run(progress=False))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model", some(catalog.MODELS, "logistic", "mlp", "fedmos_mnist_cnn")
)
def test_model(model, images):
    """A model that does not build from its catalog entry or does not train."""
    dataset = images[SHAPES[model]] if model in SHAPES else "digits"
    arguments = {**TINY, "clients": 4, "cohort": 2, "model": model}
    check(fm.Experiment(**arguments, dataset=dataset).run(progress=False))


# The full cross product would take an hour: each further name meets one partner.
QUICK = ("ucs", "md", "acs")
OWN = {entry.sampler for entry in catalog.ALGORITHMS.values()}  # of one method only
PAIRS = [(a, s) for a in DENSE for s in QUICK]
FURTHER = [(a, "ucs") for a in catalog.ALGORITHMS if a not in DENSE]
# tests/samplers/test_clustered.py, test_extra_rounds.py: a warm-up takes everyone.
OWN |= {"cacs", "cacs_kept", "cacs_discarded"}
FURTHER += [("fedavg", s) for s in catalog.SAMPLERS if s not in {*QUICK, *OWN}]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("algorithm", "sampler"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in FURTHER)],
)
def test_algorithm_and_sampler(algorithm, sampler):
    """A method that only works with the sampler it was written for."""
    arguments = {**TINY, "rounds": 2, "algorithm": algorithm, "sampler": sampler}
    if sampler == "power_of_choice":
        arguments["options"] = {"candidates": TINY["clients"]}
    check(fm.Experiment(**arguments).run(progress=False), rounds=2)


@pytest.mark.parametrize("algorithm", DENSE)
def test_epochs(algorithm):
    """Epochs over clients of different sizes that a method's first step breaks."""
    arguments = {**TINY, "steps": None, "epochs": 2, "algorithm": algorithm}
    check(fm.Experiment(**arguments).run(progress=False))


@pytest.mark.thorough
def test_augment(images):
    """Augmentation that is ignored, or that does not fit stored images."""
    arguments = {**TINY, "clients": 4, "cohort": 2, "dataset": images[28, 28, 1]}
    plain, augmented = (
        check(fm.Experiment(**arguments, augment=augment).run(progress=False))
        for augment in (False, True)
    )
    assert plain["train_loss"][0] != augmented["train_loss"][0]


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["auto", "chunked:2", "sharded", "debug"])
def test_backend(backend, reference):
    """A layout of clients on the machine that changes what is computed."""
    experiment = dataclasses.replace(reference.experiment, backend=backend)
    result = experiment.run(progress=False)
    ours = result.frame.drop(columns="seconds").astype(float)
    theirs = reference.frame.drop(columns="seconds").astype(float)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    for mine, other in zip(
        jax.tree.leaves(result.params), jax.tree.leaves(reference.params), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_same_seed_same_run(reference):
    """A run that cannot be repeated."""
    again = reference.experiment.run(progress=False)
    columns = reference.frame.columns.drop("seconds")
    assert again.frame[columns].equals(reference.frame[columns])


def test_seeds_are_apart(reference):
    """A seed that training ignores, or that changes the clients' data."""
    other = dataclasses.replace(reference.experiment, seed=1)
    data, ours = other.build().data, reference.experiment.build().data
    np.testing.assert_array_equal(data.order, ours.order)
    history = other.run(progress=False).frame
    assert history["train_loss"][0] != reference.frame["train_loss"][0]
    moved = dataclasses.replace(reference.experiment, data_seed=1).build().data
    assert not np.array_equal(moved.order, ours.order)


def test_eval_every():
    """Evaluation in the wrong rounds, or none after the last."""
    arguments = {**TINY, "rounds": 5, "eval_every": 2}
    history = fm.Experiment(**arguments).run(progress=False).frame
    evaluated = history["round"][history["test_loss"].notna()]
    assert evaluated.tolist() == [2, 4, 5]


def test_is_frozen():
    """An experiment that changes after it has been run."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        fm.Experiment().rounds = 3


def test_equality_and_replace():
    """Two equal experiments that are told apart, or a copy that is not checked."""
    experiment = fm.Experiment(options={"lr": 0.1})
    assert experiment == fm.Experiment(options={"lr": 0.1})
    assert experiment != fm.Experiment(options={"lr": 0.2})
    other = dataclasses.replace(experiment, sampler="ucs")
    assert (other.sampler, other.options) == ("ucs", {"lr": 0.1})
    assert experiment.sampler == "acs"
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        dataclasses.replace(experiment, rounds=0)


def test_options_reach_their_component():
    """An option that lands in another component or is dropped on the way."""
    options = {
        "lr": 0.5,
        "weights": "mean",
        "largest": 8,
        "model.hidden": (5, 4),
        "local.clip": 2,
        "fedmos.storm": "0.25",
    }
    experiment = fm.Experiment(sampler="ucs", options=options)
    chosen = {kind: part.spec.options for kind, part in experiment.parts.items()}
    assert (chosen["algorithm"]["lr"], chosen["algorithm"]["storm"]) == (0.5, 0.25)
    assert chosen["sampler"] == {"weights": "mean"}
    assert chosen["partition"]["largest"] == 8
    made = experiment.build()
    assert int(made.data.size.max()) <= 8
    assert made.sim.hp["algorithm"]["lr"] == 0.5
    assert made.sim.hp["local"] == {"clip": 2.0}
    state, _ = jax.eval_shape(made.start, jax.random.key(0))
    widths = {leaf.shape[-1] for leaf in jax.tree.leaves(state.server.params)}
    assert widths == {5, 4, 10}


def test_default():
    """The default run is no longer the one that the README describes."""
    experiment = fm.Experiment()
    assert (experiment.algorithm, experiment.sampler) == ("fedmos", "acs")
    assert (experiment.dataset, experiment.cohort) == ("digits", 10)
    made = experiment.build()
    size = np.asarray(made.data.size)
    assert len(size) == 100
    assert (size.min(), size.max()) == (4, 16)
    assert len(np.unique(size)) == 13
    parts = fm.partitions.Partition(np.asarray(made.data.order), size)
    table = histogram(parts, np.asarray(made.data.y), classes=10)
    assert ((table > 0).sum(axis=1) == 2).all()
    assert len(np.unique(parts.order)) == len(parts.order)  # nobody shares
    state, key = made.start(jax.random.key(0))
    _, info = jax.eval_shape(made.sim.step, made.data, state, key)
    assert info.cohort.ids.shape == (10,)
    assert set(made.stores) == {"train", "test", "valid"}


def test_assembled_is_the_low_level_interface(reference):
    """What `build` returns does not give the same numbers by hand."""
    made = reference.experiment.build()
    state, key = made.start(jax.random.key(0))
    state, history = fm.run(
        made.sim,
        made.data,
        state,
        key,
        1,
        evaluate=made.evaluate,
        stores=made.stores,
        progress=False,
    )
    assert history["test_loss"][0] == reference.frame["test_loss"][0]
    logits = made.apply(state.server.params, made.stores["test"].x, None)
    hits = np.asarray(logits.argmax(-1) == made.stores["test"].y)
    np.testing.assert_allclose(hits.mean(), history["test_accuracy"][0], rtol=1e-6)


def test_what_is_printed_is_a_line(reference):
    """Pages of numbers, where somebody looks at what a name stands for."""
    made, data = reference.experiment.build(), fm.data.load("digits")
    for thing, told in (
        (reference, f"Result({reference.name}: "),
        (dataclasses.replace(reference, complete=False), "rounds, interrupted)"),
        (made, "parameters=7850, layout="),
        (data, "train=Examples(x=(1078, 8, 8, 1), y=(1078,)), test="),
        (data._replace(groups=np.arange(1078) // 2), "classes=10, clients=539)"),
        (made.data, "FederatedData(clients="),
        (jax.tree.map(lambda leaf: None, made.data), "clients=None, largest="),
    ):
        assert told in repr(thing)
        assert len(repr(thing)) < 250 and "\n" not in repr(thing)


def test_training_examples_need_not_be_evaluated():
    """The same run without the columns that cost most; not without others."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    data = fm.arrays(x[:30], y[:30], x[30:], y[30:])
    one = fm.Experiment(**TINY, dataset=data)
    whole = one.run(progress=False).frame
    less = dataclasses.replace(one, eval_train=False).run(progress=False).frame
    left = {n for n in whole if not n.startswith("train_")}
    assert {*less} == left and {"test_loss", "test_accuracy"} <= left < {*whole}
    np.testing.assert_allclose(less["test_loss"], whole["test_loss"], rtol=1e-6)
    parts = fm.partitions.iid(y, 8, seed=0)
    only = {"train": fm.federate(x.astype("float32"), y, parts)}
    with pytest.raises(ValueError, match="eval_train must be on for data that have no"):
        fm.Experiment(**TINY, dataset=only, eval_train=False).build()
