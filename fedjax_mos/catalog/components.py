"""Everything but algorithms by name."""

from fedjax_mos import channels, models, recipes, samplers
from fedjax_mos.catalog import papers
from fedjax_mos.catalog.entry import Entry
from fedjax_mos.data import partition, sources
from fedjax_mos.hyperparameters import decaying
from fedjax_mos.local import local_work

SAMPLERS: dict[str, Entry] = {
    "ucs": Entry(samplers.uniform, {"weights": "eq28"}, papers.FEDMOS),
    "ucs_release": Entry(
        samplers.uniform_release, {}, f"Released program of {papers.FEDMOS}"
    ),
    "md": Entry(samplers.multinomial, {}, papers.FEDPROX),
    "acs": Entry(samplers.adaptive, {}, f"{papers.FEDMOS}; {papers.FRABONI}"),
    "cacs": Entry(
        samplers.clustered_adaptive,
        {"warm_up": 4, "clusters": 0, "distance": "cosine"},
        papers.FEDMOS,
    ),
    "clustered": Entry(
        samplers.clustered, {"every": 1, "distance": "angle"}, papers.FRABONI
    ),
    "systematic": Entry(samplers.systematic, {}, papers.SYSTEMATIC),
    "bernoulli": Entry(samplers.bernoulli, {"weights": "mean"}, papers.FEDCM),
    "power_of_choice": Entry(
        samplers.power_of_choice, {"candidates": 20, "micro_batch": 32}, papers.POWER
    ),
    "everyone": Entry(samplers.everyone, {}, papers.FEDAVG),
    "lag_contact": Entry(
        samplers.lag_contact,
        {"smoothness": 1.0, "horizon": 10},
        papers.LAG,
        only_for=("lag_ps",),
    ),
}

_CODEC = {
    "fraction": 1 / 8,
    "codec": "top_k",
    "bits": 4,
    "per_tensor": False,
    "straight_through": False,  # the derivative of the identity, for hypergradients
}
_RULED = _CODEC | {"kappa": 1.5}

CHANNELS: dict[str, Entry] = {
    "identity": Entry(channels.identity, {}, papers.OURS),
    "compressed": Entry(recipes.compressed, _CODEC, papers.STICH),
    "feedback": Entry(recipes.with_feedback, _CODEC, papers.FEDAMS),
    "nla": Entry(recipes.nla, {"kappa": 0.5, "reference": "transmitted"}, papers.NLA),
    "aa": Entry(recipes.aa, {"kappa": 0.5}, papers.NLA),
    "nla_compressed": Entry(
        recipes.nla_compressed,
        _RULED | {"ef_reference": "output", "reference": "transmitted"},
        papers.NLA,
    ),
    "aa_compressed": Entry(
        recipes.aa_compressed, _RULED | {"ef_reference": "output"}, papers.NLA
    ),
    "nla_down": Entry(
        recipes.nla_down,
        _CODEC | {"kappa": 0.002, "downlink": "difference"},
        papers.NLA,
    ),
    "aa_down": Entry(
        recipes.aa_down,
        _CODEC | {"kappa": 0.002, "downlink": "difference", "extrapolate": False},
        papers.NLA,
    ),
    "lag_worker": Entry(channels.lag_worker, {"skip": True}, papers.LAG),
    "lag_contacted": Entry(channels.lag_worker, {"skip": False}, papers.LAG),
}

PARTITIONS: dict[str, Entry] = {
    "iid": Entry(partition.iid, {}, papers.FEDAVG),
    "classes": Entry(
        partition.classes,
        {"classes_per_client": 2, "smallest": 10, "largest": 50},
        papers.FEDMOS,
        tuned={"digits": {"smallest": 4, "largest": 16}},
    ),
    "fedmos_mnist": Entry(
        partition.classes,
        {"classes_per_client": 2, "smallest": 10, "largest": 50},
        papers.FEDMOS,
    ),
    "fedmos_cifar": Entry(
        partition.ladder,
        {
            "classes_per_client": 5,
            "sizes": (200, 150, 100, 50, 20),
            "fractions": (0.1, 0.2, 0.3, 0.3, 0.1),
        },
        papers.FEDMOS,
    ),
    "dirichlet": Entry(
        partition.dirichlet, {"alpha": 0.3, "smallest": 1}, papers.YUROCHKIN
    ),
    "dirichlet_balanced": Entry(
        partition.dirichlet_balanced, {"alpha": 0.3}, papers.FEDACG
    ),
    "dirichlet_visiting": Entry(
        partition.dirichlet_visiting, {"alpha": 0.6}, papers.FEDDYN
    ),
    "shards": Entry(partition.shards, {"shards_per_client": 2}, papers.FEDAVG),
    "quantity": Entry(partition.quantity, {"alpha": 1.0, "smallest": 1}, papers.SILOS),
    "natural": Entry(partition.natural, {}, papers.FEDAVG),
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
    "logistic": Entry(models.logistic, {}, papers.FEDPROX),
    "mlp": Entry(
        models.mlp,
        {"hidden": (200,), "dropout": 0.0},
        papers.FEDAVG,
        tuned={"digits": {"hidden": (64,)}},
    ),
    "cnn": Entry(models.cnn, {}, papers.FEDAVG),
    "fedmos_mnist_cnn": Entry(models.fedmos_mnist_cnn, {"dropout": 0.5}, papers.FEDMOS),
    "fedmos_cifar_cnn3": Entry(
        models.fedmos_cifar_cnn3, {"dropout": 0.2}, papers.FEDMOS
    ),
    "fedmos_cifar_lenet": Entry(models.fedmos_cifar_lenet, {}, papers.FEDMOS),
    "resnet18": Entry(models.resnet18, {"stem": "3x3", "groups": 2}, papers.RESNET),
}

# Options of every local step, whatever the algorithm; None switches one off.
LOCAL = Entry(
    local_work,
    {
        "clip": None,
        "weight_decay": None,
        "epoch_decay": None,
        "scale": None,
        "micro_batch": 32,
    },
    papers.OURS,
)
SCHEDULE = Entry(decaying, {"round_decay": None}, papers.OURS)
