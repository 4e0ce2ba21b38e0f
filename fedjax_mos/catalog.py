"""Names people type: factories, their default numbers and the papers they come from.

Numbers under `tuned` replace the defaults on that data set. For `digits` they come from
the equal-budget grid of benchmarks/digits_grid.py.
"""

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from fedjax_mos import algorithms, channels, models, recipes, samplers
from fedjax_mos.algorithms import shaped
from fedjax_mos.data import partition, sources
from fedjax_mos.hyperparameters import decaying
from fedjax_mos.local import local_work


class Entry(NamedTuple):
    """One name: what it makes, its options with their defaults, and its source."""

    factory: Callable[..., Any]
    options: dict[str, Any]
    reference: str
    tuned: dict[str, dict[str, Any]] = {}  # read only
    # For algorithms: the channels that make a recipe, and who has to take part.
    uplink: str = "identity"
    downlink: str = "identity"
    sampler: str | None = None  # the only sampler that makes sense
    everyone: bool = False  # needs full participation

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
_FEDDC = (
    "Gao et al., FedDC: Federated Learning with Non-IID Data via Local Drift "
    "Decoupling and Correction, CVPR 2022"
)
_FEDCM = "Xu et al., FedCM: Federated Learning with Client-level Momentum, 2021"
_HSU = (
    "Hsu et al., Measuring the Effects of Non-Identical Data Distribution for "
    "Federated Visual Classification, 2019"
)
_FEDOPT = "Reddi et al., Adaptive Federated Optimization, ICLR 2021"
_FEDAMS = "Wang et al., Communication-Efficient Adaptive Federated Learning, ICML 2022"
_SLOWMO = (
    "Wang et al., SlowMo: Improving Communication-Efficient Distributed SGD with Slow "
    "Momentum, ICLR 2020"
)
_SCAFFOLD = (
    "Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated "
    "Learning, ICML 2020"
)
_MIME = (
    "Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated "
    "Learning, NeurIPS 2021"
)
_STEM = (
    "Khanduri et al., STEM: A Stochastic Two-Sided Momentum Algorithm Achieving "
    "Near-Optimal Sample and Communication Complexities for Federated Learning, "
    "NeurIPS 2021"
)
_GLOMO = (
    "Das et al., Faster Non-Convex Federated Learning via Global and Local Momentum, "
    "UAI 2022"
)
_LAG = (
    "Chen et al., LAG: Lazily Aggregated Gradient for Communication-Efficient "
    "Distributed Learning, NeurIPS 2018"
)
_NLA = (
    "Bidirectional communication-efficient non-convex adaptive federated learning, "
    "anonymous submission, 2024"
)
_MOON = "Li, He and Song, Model-Contrastive Federated Learning, CVPR 2021"
_FEDMLB = (
    "Kim et al., Multi-Level Branched Regularization for Federated Learning, ICML 2022"
)
_FEDLC = (
    "Zhang et al., Federated Learning with Label Distribution Skew via Logits "
    "Calibration, ICML 2022"
)
_FEDNTD = (
    "Lee et al., Preservation of the Global Knowledge by Not-True Distillation in "
    "Federated Learning, NeurIPS 2022"
)
_FEDDECORR = (
    "Shi et al., Towards Understanding and Mitigating Dimensional Collapse in "
    "Heterogeneous Federated Learning, ICLR 2023"
)
_FRABONI = (
    "Fraboni et al., Clustered Sampling: Low-Variance and Improved Representativity "
    "for Clients Selection in Federated Learning, ICML 2021"
)
_POWER = (
    "Cho et al., Towards Understanding Biased Client Selection in Federated Learning, "
    "AISTATS 2022"
)
_SYSTEMATIC = "Madow, On the Theory of Systematic Sampling, 1949"
_STICH = "Stich et al., Sparsified SGD with Memory, NeurIPS 2018"
_RESNET = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"
_OURS = "this package"

# The numbers of the FedMoS release's run.sh; the paper prints none.
_FEDMOS_NUMBERS = {"lr": 0.01, "storm": 0.1, "prox": 0.001, "server_momentum": 0.8}
_FEDMOS_DIGITS = {"lr": 0.3, "storm": 0.9, "prox": 0.001, "server_momentum": 0.7}
# The settings that FedACG's comparison shares, and those of FedCAMS's program.
_SGD = {"lr": 0.1, "server_lr": 1.0}
_ACG = {"lr": 0.1, "server_momentum": 0.85}
_MOMENTS = {"b1": 0.9, "b2": 0.99}
_AMS = {"lr": 0.01, "server_lr": 1.0} | _MOMENTS | {"eps": 1e-3}
_AMS_OPTIONS = {"option": 1, "bias_correction": False}

# Objective, its numbers, reference: FedAvg's server as NAME, FedACG's as NAME_acg.
_SHAPED: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "moon": (shaped.moon, {"weight": 1.0, "temperature": 0.5}, _MOON),
    "fedmlb": (shaped.fedmlb, {"ce_weight": 1.0, "kl_weight": 1.0}, _FEDMLB),
    "fedlc": (shaped.fedlc, {"temperature": 1.0, "include_true": True}, _FEDLC),
    "fedntd": (
        shaped.fedntd,
        {"ce_weight": 1.0, "weight": 1.0, "temperature": 1.0},
        _FEDNTD,
    ),
    "feddecorr": (shaped.feddecorr, {"weight": 0.01}, _FEDDECORR),
}


def _ams(uplink: str, downlink: str = "identity", reference: str = _NLA) -> Entry:
    """A recipe: FedAMS's server behind these channels."""
    options = _AMS | _AMS_OPTIONS
    return Entry(
        algorithms.fedams, options, reference, uplink=uplink, downlink=downlink
    )


ALGORITHMS: dict[str, Entry] = {
    "fedavg": Entry(
        algorithms.fedavg,
        {"lr": 0.01, "server_lr": 1.0},
        _FEDAVG,
        tuned={"digits": {"lr": 0.35, "server_lr": 1.25}},
    ),
    "fedprox": Entry(algorithms.fedprox, _SGD | {"prox": 0.002}, _FEDPROX),
    "fedavgm": Entry(algorithms.fedavgm, _SGD | {"server_momentum": 0.4}, _HSU),
    "slowmo": Entry(algorithms.slowmo, _SGD | {"server_momentum": 0.5}, _SLOWMO),
    "fedadagrad": Entry(
        algorithms.fedadagrad,
        {"lr": 0.1, "server_lr": 0.01, "b1": 0.0, "eps": 1e-3},
        _FEDOPT,
    ),
    "fedadam": Entry(
        algorithms.fedadam,
        {"lr": 0.1, "server_lr": 0.01} | _MOMENTS | {"eps": 1e-3},
        _FEDOPT,
    ),
    "fedyogi": Entry(
        algorithms.fedyogi,
        {"lr": 0.1, "server_lr": 0.01} | _MOMENTS | {"eps": 1e-3},
        _FEDOPT,
    ),
    "fedams": Entry(algorithms.fedams, _AMS | _AMS_OPTIONS, _FEDAMS),
    "fedams_option2": Entry(
        algorithms.fedams, _AMS | _AMS_OPTIONS | {"option": 2}, _FEDAMS
    ),
    "fedams_release": Entry(
        algorithms.fedams,
        _AMS | _AMS_OPTIONS | {"bias_correction": True},
        f"Released program of {_FEDAMS}",
    ),
    "scaffold": Entry(algorithms.scaffold, _SGD | {"option": 2}, _SCAFFOLD),
    "scaffold_option1": Entry(algorithms.scaffold, _SGD | {"option": 1}, _SCAFFOLD),
    "feddyn": Entry(
        algorithms.feddyn,
        {"lr": 0.1, "dyn": 0.1, "scale_by_importance": False},
        _FEDDYN,
    ),
    "feddc": Entry(
        algorithms.feddc,
        {"lr": 0.1, "dyn": 0.01, "scale_by_importance": False},
        _FEDDC,
    ),
    "fedcm": Entry(
        algorithms.fedcm, _SGD | {"mix": 0.1, "decay_inside": False}, _FEDCM
    ),
    "fedcm_decay_inside": Entry(
        algorithms.fedcm, _SGD | {"mix": 0.1, "decay_inside": True}, _FEDCM
    ),
    "mime": Entry(algorithms.mime, {"lr": 0.1, "server_momentum": 0.9}, _MIME),
    "mimelite": Entry(algorithms.mimelite, {"lr": 0.1, "server_momentum": 0.9}, _MIME),
    "stem": Entry(algorithms.stem, {"lr": 0.1, "storm": 0.1, "own_init": False}, _STEM),
    "fedglomo": Entry(algorithms.fedglomo, {"lr": 0.1, "mix": 0.3}, _GLOMO),
    "fedlomo": Entry(algorithms.fedlomo, {"lr": 0.1}, _GLOMO),
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
    "fedacg": Entry(algorithms.fedacg, _ACG | {"prox": 0.002}, _FEDACG),
    **{
        name: Entry(partial(shaped.on_fedavg, objective), _SGD | numbers, paper)
        for name, (objective, numbers, paper) in _SHAPED.items()
    },
    **{
        f"{name}_acg": Entry(
            partial(shaped.on_fedacg, objective), _ACG | numbers, f"{paper}; {_FEDACG}"
        )
        for name, (objective, numbers, paper) in _SHAPED.items()
    },
    "fedlc_literal": Entry(
        partial(shaped.on_fedavg, shaped.fedlc),
        _SGD | {"temperature": 1.0, "include_true": False},
        f"{_FEDLC}, as printed",
    ),
    "fedntd_release": Entry(
        partial(shaped.on_fedavg, shaped.fedntd),
        _SGD | {"ce_weight": 0.7, "weight": 0.3, "temperature": 1.0},
        f"{_FEDNTD}, as in the released program of {_FEDACG}",
    ),
    "lag": Entry(
        algorithms.lag,
        {"lr": 0.001, "horizon": 10},
        f"{_LAG} (LAG-WK)",
        uplink="lag_worker",
        everyone=True,
    ),
    "lag_ps": Entry(
        algorithms.lag,
        {"lr": 0.001, "horizon": 10},
        f"{_LAG} (LAG-PS)",
        uplink="lag_contacted",
        sampler="lag_contact",
        everyone=True,
    ),
    "fedcams": _ams("feedback", reference=_FEDAMS),
    "fednlaa": _ams("nla"),
    "fedaa": _ams("aa"),
    "fednlaca": _ams("nla_compressed"),
    "fedaca": _ams("aa_compressed"),
    "fedbnlaca": _ams("nla_compressed", "nla_down"),
    "fedbaca": _ams("aa_compressed", "aa_down"),
}

SAMPLERS: dict[str, Entry] = {
    "ucs": Entry(samplers.uniform, {"weights": "eq28"}, _FEDMOS),
    "ucs_release": Entry(
        samplers.uniform_release, {}, f"Released program of {_FEDMOS}"
    ),
    "md": Entry(samplers.multinomial, {}, _FEDPROX),
    "acs": Entry(samplers.adaptive, {}, _FEDMOS),
    "systematic": Entry(samplers.systematic, {}, _SYSTEMATIC),
    "bernoulli": Entry(samplers.bernoulli, {"weights": "mean"}, _FEDCM),
    "power_of_choice": Entry(
        samplers.power_of_choice, {"candidates": 20, "micro_batch": 256}, _POWER
    ),
    "lag_contact": Entry(
        samplers.lag_contact, {"lr": 0.001, "smoothness": 1.0, "horizon": 10}, _LAG
    ),
}

_CODEC = {"fraction": 1 / 8, "codec": "top_k", "bits": 4, "per_tensor": False}
_RULED = _CODEC | {"kappa": 1.5}

CHANNELS: dict[str, Entry] = {
    "identity": Entry(channels.identity, {}, _OURS),
    "compressed": Entry(recipes.compressed, _CODEC, _STICH),
    "feedback": Entry(recipes.with_feedback, _CODEC, _FEDAMS),
    "nla": Entry(recipes.nla, {"kappa": 0.5, "reference": "transmitted"}, _NLA),
    "aa": Entry(recipes.aa, {"kappa": 0.5}, _NLA),
    "nla_compressed": Entry(
        recipes.nla_compressed,
        _RULED | {"ef_reference": "output", "reference": "transmitted"},
        _NLA,
    ),
    "aa_compressed": Entry(
        recipes.aa_compressed, _RULED | {"ef_reference": "output"}, _NLA
    ),
    "nla_down": Entry(
        recipes.nla_down, _CODEC | {"kappa": 0.002, "downlink": "difference"}, _NLA
    ),
    "aa_down": Entry(
        recipes.aa_down,
        _CODEC | {"kappa": 0.002, "downlink": "difference", "extrapolate": False},
        _NLA,
    ),
    "lag_worker": Entry(channels.lag_worker, {"skip": True}, _LAG),
    "lag_contacted": Entry(channels.lag_worker, {"skip": False}, _LAG),
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
    "fedmos_mnist_cnn": Entry(models.fedmos_mnist_cnn, {"dropout": 0.5}, _FEDMOS),
    "fedmos_cifar_cnn3": Entry(models.fedmos_cifar_cnn3, {"dropout": 0.2}, _FEDMOS),
    "fedmos_cifar_lenet": Entry(models.fedmos_cifar_lenet, {}, _FEDMOS),
    "resnet18": Entry(models.resnet18, {"stem": "3x3", "groups": 2}, _RESNET),
}

# Options of every local step, whatever the algorithm; None switches one off.
LOCAL = Entry(
    local_work,
    {"clip": None, "weight_decay": None, "epoch_decay": None, "micro_batch": 256},
    _OURS,
)
SCHEDULE = Entry(decaying, {"round_decay": None}, _OURS)


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
        "local": {"local": LOCAL, "schedule": SCHEDULE},
    }
    return {
        kind: [
            {
                "name": name,
                "hyperparameters": entry.options,
                "tuned": entry.tuned,
                "channels": {"uplink": entry.uplink, "downlink": entry.downlink}
                if table is ALGORITHMS
                else {},
                "reference": entry.reference,
            }
            for name, entry in table.items()
        ]
        for kind, table in tables.items()
    }
