"""What fits a data set where nothing is said."""

from typing import NamedTuple


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
