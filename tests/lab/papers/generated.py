"""Data of the shapes that cards name, and experiments made small enough to test."""

import dataclasses
from functools import cache

import numpy as np

import fedjax_mos as fm
from fedjax_mos.lab.population import population_of

SHAPES = {
    "mnist": ((28, 28, 1), 10),
    "fashion_mnist": ((28, 28, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
    "tiny_imagenet": ((64, 64, 3), 200),
}
TRAIN = {
    "mnist": 60_000,
    "fashion_mnist": 60_000,
    "cifar10": 50_000,
    "cifar100": 50_000,
    "tiny_imagenet": 100_000,
}
# What a partition of 20 clients needs; the others cut whatever is there.
EXAMPLES = {"fedmos_cifar": 2400, "fedmos_mnist": 1200}


def noise(name, examples):
    """x_train, y_train, x_test, y_test of noise, every class equally often."""
    shape, classes = SHAPES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (examples + 100, *shape), np.uint8)
    y = rng.permutation(np.arange(len(x)) % classes)
    return x[:examples], y[:examples], x[examples:], y[examples:]


@cache
def dataset(name, examples, apart=1):
    """The same as a data set, of which only every so many pixels are kept."""
    x, y, x_test, y_test = noise(name, examples)
    x, x_test = (one[:, ::apart, ::apart] for one in (x, x_test))
    return fm.arrays(x, y, x_test, y_test, classes=SHAPES[name][1])


def tiny(experiment):
    """The same method, model, sampler and partition with 20 clients and two rounds."""
    everyone = experiment.cohort == experiment.clients
    deep = experiment.model == "resnet18"  # which takes images of any size
    examples = EXAMPLES.get(experiment.partition, 200 if deep else 400)
    warm_up = int(experiment.options.get("warm_up", 0))
    return dataclasses.replace(
        experiment,
        dataset=dataset(experiment.dataset, examples, 4 if deep else 1),
        clients=20,
        cohort=20 if everyone else 2,
        pool=None if experiment.pool is None else 10,
        pool_every=2,
        rounds=2 + warm_up,
        batch_size=10,
        **({"steps": 2} if experiment.epochs is None else {"epochs": 1}),
        eval_every=2,
    )


def sizes(experiment):
    """The clients' sizes, of as many examples and labels as there really are."""
    labels = np.arange(TRAIN[experiment.dataset]) % SHAPES[experiment.dataset][1]
    no_pixels = np.zeros((len(labels), 1), np.uint8)
    data = fm.arrays(no_pixels, labels, no_pixels[:100], labels[:100])
    return population_of(dataclasses.replace(experiment, dataset=data)).train.size


def kind(experiment):
    """What decides whether an experiment can run at all."""
    parts = experiment.parts
    names = (parts[kind].name for kind in ("algorithm", "model", "sampler"))
    # A codec, a rule or a threshold by formula; numbers make no other program.
    ways = {
        f"{link}.{name} {value}"
        for link in ("uplink", "downlink")
        for name, value in parts[link].spec.options.items()
        if isinstance(value, str | bool)
    }
    advised = {n for n, v in experiment.options.items() if isinstance(v, str)}
    return (*names, SHAPES[experiment.dataset], *sorted(ways | advised))
