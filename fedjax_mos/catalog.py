"""Names people type: factories, their default numbers and the papers they come from.

Numbers under `tuned` replace the defaults on that data set. For `digits` they come from
the equal-budget grid of benchmarks/digits_grid.py.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fedjax_mos import algorithms, channels, models, samplers
from fedjax_mos.data import partition, sources
from fedjax_mos.local import local_work


class Entry(NamedTuple):
    """One name: what it makes, its options with their defaults, and its source."""

    factory: Callable[..., Any]
    options: dict[str, Any]
    reference: str
    tuned: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - read only

    def defaults(self, dataset: str) -> dict[str, Any]:
        """The options on `dataset`."""
        return self.options | self.tuned.get(dataset, {})


_FEDMOS = (
    "Wang et al., FedMoS: Taming Client Drift in Federated Learning with Double "
    "Momentum and Adaptive Selection, INFOCOM 2023"
)
_FEDAVG = (
    "McMahan et al., Communication-Efficient Learning of Deep Networks from "
    "Decentralized Data, AISTATS 2017"
)
_FEDPROX = "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020"
_FEDACG = (
    "Kim et al., Communication-Efficient Federated Learning with Accelerated Client "
    "Gradient, CVPR 2024"
)
_FEDDYN = "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021"
_HSU = (
    "Hsu et al., Measuring the Effects of Non-Identical Data Distribution for "
    "Federated Visual Classification, 2019"
)
_RESNET = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"
_OURS = "this package"

# The numbers of the FedMoS release's run.sh; the paper prints none.
_FEDMOS_NUMBERS = {"lr": 0.01, "storm": 0.1, "prox": 0.001, "server_momentum": 0.8}

_FEDMOS_DIGITS = {"lr": 0.3, "storm": 0.9, "prox": 0.001, "server_momentum": 0.7}

ALGORITHMS: dict[str, Entry] = {
    "fedavg": Entry(
        algorithms.fedavg,
        {"lr": 0.01, "server_lr": 1.0},
        _FEDAVG,
        tuned={"digits": {"lr": 0.35, "server_lr": 1.25}},
    ),
    "fedmos": Entry(
        algorithms.fedmos,
        _FEDMOS_NUMBERS | {"first_batch": "full"},
        _FEDMOS,
        tuned={"digits": _FEDMOS_DIGITS},
    ),
    "fedmos_release": Entry(
        algorithms.fedmos_release,
        dict(_FEDMOS_NUMBERS),
        f"Released program of {_FEDMOS}",
        tuned={"digits": _FEDMOS_DIGITS},
    ),
}

SAMPLERS: dict[str, Entry] = {
    "ucs": Entry(samplers.uniform, {"weights": "eq28"}, _FEDMOS),
    "md": Entry(samplers.multinomial, {}, _FEDPROX),
    "acs": Entry(samplers.adaptive, {}, _FEDMOS),
}

CHANNELS: dict[str, Entry] = {
    "identity": Entry(channels.identity, {}, _OURS),
}

PARTITIONS: dict[str, Entry] = {
    "iid": Entry(partition.iid, {}, _FEDAVG),
    "classes": Entry(
        partition.classes,
        {"classes_per_client": 2, "smallest": 10, "largest": 50},
        _FEDMOS,
        tuned={"digits": {"smallest": 4, "largest": 16}},
    ),
    "fedmos_mnist": Entry(
        partition.classes,
        {"classes_per_client": 2, "smallest": 10, "largest": 50},
        _FEDMOS,
    ),
    "fedmos_cifar": Entry(
        partition.ladder,
        {
            "classes_per_client": 5,
            "sizes": (200, 150, 100, 50, 20),
            "fractions": (0.1, 0.2, 0.3, 0.3, 0.1),
        },
        _FEDMOS,
    ),
    "dirichlet": Entry(partition.dirichlet, {"alpha": 0.3, "smallest": 1}, _HSU),
    "dirichlet_balanced": Entry(partition.dirichlet_balanced, {"alpha": 0.3}, _FEDACG),
    "dirichlet_visiting": Entry(partition.dirichlet_visiting, {"alpha": 0.6}, _FEDDYN),
    "shards": Entry(partition.shards, {"shards_per_client": 2}, _FEDAVG),
    "quantity": Entry(partition.quantity, {"alpha": 1.0, "smallest": 1}, _OURS),
    "natural": Entry(partition.natural, {}, _FEDAVG),
}

DATASETS: dict[str, Entry] = {
    name: Entry(
        source.generate or sources.load,
        {"alpha": 1.0, "beta": 1.0, "iid": False, "seed": 0}
        if name == "synthetic"
        else {},
        source.reference,
    )
    for name, source in sources.SOURCES.items()
}

MODELS: dict[str, Entry] = {
    "logistic": Entry(models.logistic, {}, _FEDPROX),
    "mlp": Entry(
        models.mlp,
        {"hidden": (200,), "dropout": 0.0},
        _FEDAVG,
        tuned={"digits": {"hidden": (64,)}},
    ),
    "cnn": Entry(models.cnn, {}, _FEDAVG),
    "fedmos_mnist_cnn": Entry(models.fedmos_mnist_cnn, {}, _FEDMOS),
    "fedmos_cifar_cnn3": Entry(models.fedmos_cifar_cnn3, {}, _FEDMOS),
    "fedmos_cifar_lenet": Entry(models.fedmos_cifar_lenet, {}, _FEDMOS),
    "resnet18": Entry(models.resnet18, {"stem": "3x3", "groups": 2}, _RESNET),
}

# Options of every local step, whatever the algorithm; None switches one off.
LOCAL = Entry(
    local_work,
    {"clip": None, "weight_decay": None, "epoch_decay": None, "micro_batch": 256},
    _OURS,
)


class Habit(NamedTuple):
    """What people use with a data set when they do not say otherwise."""

    partition: str
    model: str
    target: float  # test accuracy of "rounds to target"


HABITS: dict[str, Habit] = {
    "digits": Habit("classes", "mlp", 0.9),
    "synthetic": Habit("natural", "logistic", 0.7),
    "mnist": Habit("fedmos_mnist", "fedmos_mnist_cnn", 0.95),
    "fashion_mnist": Habit("shards", "mlp", 0.8),
    "cifar10": Habit("fedmos_cifar", "fedmos_cifar_cnn3", 0.6),
    "cifar100": Habit("dirichlet_balanced", "resnet18", 0.4),
    "tiny_imagenet": Habit("dirichlet_balanced", "resnet18", 0.3),
}
OTHER = Habit("iid", "mlp", 0.8)


def lookup(kind: str, table: Mapping[str, Entry], name: str) -> Entry:
    """The entry called `name`, or a ValueError that lists the names there are."""
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ValueError(f"{kind} must be one of {', '.join(table)}: got {name!r}{hint}")


def listing() -> dict[str, list[dict[str, Any]]]:
    """Everything there is, for `fedjax-mos list`."""
    tables = {
        "algorithms": ALGORITHMS,
        "samplers": SAMPLERS,
        "channels": CHANNELS,
        "partitions": PARTITIONS,
        "datasets": DATASETS,
        "models": MODELS,
        "local": {"local": LOCAL},
    }
    return {
        kind: [
            {
                "name": name,
                "hyperparameters": entry.options,
                "tuned": entry.tuned,
                "reference": entry.reference,
            }
            for name, entry in table.items()
        ]
        for kind, table in tables.items()
    }
