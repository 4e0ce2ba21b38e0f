"""Per-dataset defaults: the partition, the model and the target of each data set."""

from typing import NamedTuple


class DatasetDefaults(NamedTuple):
    """What an experiment on a data set uses where it says nothing."""

    partition: str
    model: str
    target: float  # test accuracy of "rounds to target"
    lr: float = 0.01  # of all members of a comparison that have no number of their own


DATASET_DEFAULTS: dict[str, DatasetDefaults] = {
    "digits": DatasetDefaults("classes", "mlp", 0.9, 0.2),
    "synthetic": DatasetDefaults("natural", "logistic", 0.7),
    "synthetic_population": DatasetDefaults("natural", "logistic", 0.5),
    "mnist": DatasetDefaults("fedmos_mnist", "fedmos_mnist_cnn", 0.95),
    "fashion_mnist": DatasetDefaults("shards", "mlp", 0.8),
    "cifar10": DatasetDefaults("fedmos_cifar", "fedmos_cifar_cnn3", 0.6),
    "cifar100": DatasetDefaults("dirichlet_balanced", "resnet18", 0.4, 0.1),
    "tiny_imagenet": DatasetDefaults("dirichlet_balanced", "resnet18", 0.3, 0.1),
}
OTHER = DatasetDefaults("iid", "mlp", 0.8)
OTHER_GROUPED = OTHER._replace(partition="natural")  # data with an id per example
