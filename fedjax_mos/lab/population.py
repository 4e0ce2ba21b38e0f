"""The data of an experiment: a data set divided among clients."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fedjax_mos.components import Spec
from fedjax_mos.data.generated import Generated
from fedjax_mos.data.held_out import set_aside
from fedjax_mos.data.partitions import Partition, natural
from fedjax_mos.data.sources.dataset import Dataset, normalise
from fedjax_mos.data.sources.named import load, path_of
from fedjax_mos.data.sources.table import SOURCES
from fedjax_mos.data.store import checked_mass, federate
from fedjax_mos.lab import catalog
from fedjax_mos.lab.advice import DEFAULT_CLIENTS
from fedjax_mos.types import ArrayLike, FederatedData, PyTree

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

OWN = "held_out"  # the store of what every client is measured on


class Population(NamedTuple):
    """The clients' training data, the stores to evaluate on, and what a model needs."""

    train: FederatedData
    stores: dict[str, FederatedData]
    outputs: int  # classes, or numbers in a label
    normalise: Callable[[PyTree], PyTree]
    moments: str = ""  # what `normalise` subtracts and divides by
    generated: Generated | None = None  # whose examples `train` has not

    @property
    def token(self) -> Hashable:
        """All of it that a program depends on, apart from the arrays' shapes."""
        shapes = jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), self.train.x)
        size = np.asarray(self.train.size)
        ragged = (self.clients, int(size.max()), float(size.mean()))
        return (repr(shapes), self.outputs, ragged, self.moments)

    @property
    def clients(self) -> int:
        """N."""
        return self.train.size.shape[0]


def population_of(experiment: "Experiment") -> Population:
    """The experiment's data; those of named components are kept for the next one."""
    people, importance = _clients_of(experiment), experiment.importance
    if importance is None:
        return people
    alike = np.ones(people.clients, int)
    given = alike if importance == "uniform" else np.asarray(importance)
    by_size = importance == "size"
    if by_size and people.generated is not None:
        return people
    mass = None if by_size else checked_mass(given, people.clients, "importance")
    if people.generated is not None:
        return people._replace(train=dataclasses.replace(people.train, given_mass=mass))
    theirs = {
        name: dataclasses.replace(people.stores[name], given_mass=mass)
        for name in ("train", OWN)
        if name in people.stores
    }
    return people._replace(train=theirs["train"], stores=people.stores | theirs)


def _clients_of(experiment: "Experiment") -> Population:
    dataset, part = experiment.dataset, experiment.parts["partition"]
    if isinstance(dataset, Generated):
        if experiment.partition is not None:
            raise ValueError("partition must not be given with data that are divided")
        return _generated(dataset, experiment.clients, experiment.held_out)
    if isinstance(dataset, FederatedData):
        return _federated({"train": dataset}, experiment)
    if isinstance(dataset, Mapping):
        return _federated(dataset, experiment)
    given = (experiment.clients, experiment.data_seed, experiment.held_out)
    if isinstance(dataset, Dataset):
        return _divided(dataset, experiment.dataset_name, part.spec, *given)
    made = experiment.parts["dataset"].spec
    if part.own or part.name not in catalog.PARTITIONS:
        found = _load(dataset, experiment.data_dir, made.options, experiment.clients)
        return _divided(found, dataset, part.spec, *given)
    return _named(
        dataset,
        _stamp(path_of(dataset, experiment.data_dir)),
        experiment.data_dir,
        part.name,
        *given,
        _hashable(made.options),
        _hashable(part.spec.options),
    )


def _hashable(options: Mapping[str, Any]) -> tuple:
    """Options as a key: an array of one number is that number."""
    plain = {n: v.item() if hasattr(v, "item") else v for n, v in options.items()}
    return tuple(sorted(plain.items()))


def _stamp(path: Path | None) -> Hashable:
    """What changes with a file, or with any file in a folder."""
    if path is None:
        return None
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    found = [file.stat() for file in files if file.exists()]
    newest = max((one.st_mtime_ns for one in found), default=0)
    return str(path), len(found), newest, sum(one.st_size for one in found)


@lru_cache(maxsize=2)  # members of a comparison share one population
def _named(
    name: str,
    stamp: Hashable,
    data_dir: Path | None,
    partition: str,
    clients: int | None,
    seed: int,
    held_out: float,
    dataset_options: tuple,
    partition_options: tuple,
) -> Population:
    dataset = _load(name, data_dir, dict(dataset_options), clients)
    made = catalog.PARTITIONS[partition].spec().replace(**dict(partition_options))
    return _divided(dataset, name, made, clients, seed, held_out)


def _load(
    name: str, data_dir: Path | None, options: dict, clients: int | None
) -> Dataset | Generated:
    source = SOURCES.get(name)
    if source is not None and source.own_clients and clients is not None:
        options = options | {"clients": clients}
    return load(name, data_dir, **options)


def _divided(
    dataset: Dataset | Generated,
    name: str,
    partition: Spec,
    clients: int | None,
    seed: int,
    held_out: float,
) -> Population:
    if isinstance(dataset, Generated):
        if partition.factory is not natural:
            raise ValueError(f"partition must not be given: {name} has its own clients")
        return _generated(dataset, clients, held_out)
    parts = _partition(dataset, name, partition, clients, seed)
    stores = {"train": federate(*dataset.train, parts)}
    stores = _with_own(stores, held_out, seed) | {"test": federate(*dataset.test)}
    train = stores["train"]
    if dataset.valid is not None:
        stores["valid"] = federate(*dataset.valid)
    outputs = dataset.classes or _numbers(dataset.train.y)
    scale, tree = jax.tree.flatten(
        (dataset.mean, dataset.std), is_leaf=lambda leaf: leaf is None
    )
    arrays = [None if s is None else np.asarray(s) for s in scale]
    moments = repr((tree, [a if a is None else (a.shape, a.tobytes()) for a in arrays]))
    return Population(train, stores, outputs, normalise(dataset), moments)


def _partition(
    dataset: Dataset, name: str, made: Spec, clients: int | None, seed: int
) -> Partition:
    if made.factory is natural:
        if dataset.groups is None:
            raise ValueError(
                f"partition natural needs an id per example, which {name} does not have"
            )
        parts = natural(dataset.groups)
    else:
        count = DEFAULT_CLIENTS if clients is None else clients
        parts = made.build(dataset.train.y, count, seed)
    if clients not in (None, len(parts.size)):
        raise ValueError(
            f"clients must be {len(parts.size)}, the number that the partition has: "
            f"got {clients}"
        )
    return parts


def _federated(
    stores: Mapping[str, FederatedData], experiment: "Experiment"
) -> Population:
    if "train" not in stores:
        raise ValueError(f"dataset must have a part train: got {', '.join(stores)}")
    stores = _with_own(stores, experiment.held_out, experiment.data_seed)
    train = stores["train"]
    if experiment.partition is not None:
        raise ValueError("partition must not be given with data that are divided")
    if experiment.clients not in (None, train.size.shape[0]):
        raise ValueError(
            f"clients must be {train.size.shape[0]}, the number that the data have: "
            f"got {experiment.clients}"
        )
    return Population(train, dict(stores), _outputs(stores), lambda x: x)


def _generated(dataset: Generated, clients: int | None, held_out: float) -> Population:
    """Clients whose examples are made when they are drawn."""
    if clients not in (None, dataset.clients):
        raise ValueError(
            f"clients must be {dataset.clients}, the number that the data have: "
            f"got {clients}"
        )
    if held_out:
        raise ValueError(
            f"held_out must be 0 for generated clients, whose test data are other "
            f"clients': got {held_out}"
        )
    stores = dataset.stores
    outputs = _outputs(stores)
    return Population(dataset.data, stores, outputs, lambda x: x, generated=dataset)


def _outputs(stores: Mapping[str, FederatedData]) -> int:
    """Classes, or numbers in a label."""
    labels = [np.asarray(store.y) for store in stores.values()]
    whole = all(y.dtype.kind in "ui" and y.ndim == 1 for y in labels)
    return 1 + max(int(y.max()) for y in labels) if whole else _numbers(labels[0])


def _with_own(
    stores: Mapping[str, FederatedData], held_out: float, seed: int
) -> dict[str, FederatedData]:
    """The stores with part of the clients' examples as a store of its own."""
    if not held_out:
        return dict(stores)
    if OWN in stores:
        raise ValueError(
            f"held_out must be 0 where the data have a part {OWN}: got {held_out}"
        )
    train, own = set_aside(stores["train"], held_out, seed)
    return dict(stores) | {"train": train, OWN: own}


def _numbers(y: ArrayLike) -> int:
    return math.prod(np.shape(y)[1:])
