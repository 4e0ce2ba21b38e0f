"""Models as flax modules made of stages."""

from fedjax_mos.models.cnn import (
    cnn,
    fedmos_cifar_cnn3,
    fedmos_cifar_lenet,
    fedmos_mnist_cnn,
)
from fedjax_mos.models.linear import logistic
from fedjax_mos.models.mlp import mlp
from fedjax_mos.models.resnet import resnet18
from fedjax_mos.models.staged import Staged, apply, count, forward, init

__all__ = [
    "Staged",
    "apply",
    "cnn",
    "count",
    "fedmos_cifar_cnn3",
    "fedmos_cifar_lenet",
    "fedmos_mnist_cnn",
    "forward",
    "init",
    "logistic",
    "mlp",
    "resnet18",
]
