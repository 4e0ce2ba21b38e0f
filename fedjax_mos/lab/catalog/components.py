"""Everything but algorithms by name."""

from fedjax_mos import channels, models, samplers
from fedjax_mos.client import losses
from fedjax_mos.data import partitions
from fedjax_mos.lab.catalog.entry import Entry

SAMPLERS: dict[str, Entry] = {
    "ucs": Entry(samplers.uniform),
    "ucs_release": Entry(samplers.uniform_release),
    "md": Entry(samplers.multinomial),
    "acs": Entry(samplers.adaptive),
    "cacs": Entry(samplers.clustered_adaptive),
    "cacs_kept": Entry(samplers.clustered_adaptive, {"warm": "kept"}),
    "cacs_discarded": Entry(samplers.clustered_adaptive, {"warm": "discarded"}),
    "clustered": Entry(samplers.clustered),
    "systematic": Entry(samplers.systematic),
    "bernoulli": Entry(samplers.bernoulli),
    "power_of_choice": Entry(samplers.power_of_choice),
    "everyone": Entry(samplers.everyone),
    "lag_contact": Entry(samplers.lag_contact),
}

CHANNELS: dict[str, Entry] = {
    "identity": Entry(channels.identity),
    "compressed": Entry(channels.compressed),
    "feedback": Entry(channels.with_feedback),
    "nla": Entry(channels.nla),
    "aa": Entry(channels.aa),
    "nla_compressed": Entry(channels.nla_compressed),
    "aa_compressed": Entry(channels.aa_compressed),
    "nla_down": Entry(channels.nla_down),
    "aa_down": Entry(channels.aa_down),
    "lag_worker": Entry(channels.lag_worker),
    "lag_contacted": Entry(channels.lag_worker, {"skip": False}),
}

PARTITIONS: dict[str, Entry] = {
    "iid": Entry(partitions.iid),
    "classes": Entry(
        partitions.classes, tuned={"digits": {"smallest": 4, "largest": 16}}
    ),
    "fedmos_mnist": Entry(partitions.classes),
    "fedmos_cifar": Entry(partitions.ladder),
    "fedmos_cifar_overlapping": Entry(partitions.overlapping),
    "dirichlet": Entry(partitions.dirichlet),
    "dirichlet_balanced": Entry(partitions.dirichlet_balanced),
    "dirichlet_visiting": Entry(partitions.dirichlet_visiting),
    "shards": Entry(partitions.shards),
    "quantity": Entry(partitions.quantity),
    "natural": Entry(partitions.natural),
}

MODELS: dict[str, Entry] = {
    "logistic": Entry(models.logistic),
    "mlp": Entry(models.mlp, tuned={"digits": {"hidden": (64,)}}),
    "cnn": Entry(models.cnn),
    "fedmos_mnist_cnn": Entry(models.fedmos_mnist_cnn),
    "fedmos_cifar_cnn3": Entry(models.fedmos_cifar_cnn3),
    "fedmos_cifar_lenet": Entry(models.fedmos_cifar_lenet),
    "resnet18": Entry(models.resnet18),
}

LOSSES: dict[str, losses.PerExample] = {
    "cross_entropy": losses.cross_entropy,
    "squared_error": losses.squared_error,
}
