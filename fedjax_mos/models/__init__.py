"""Models as flax modules made of stages, and as plain functions."""

from fedjax_mos.models.cnn import (
    cnn,
    fedmos_cifar_cnn3,
    fedmos_cifar_lenet,
    fedmos_mnist_cnn,
)
from fedjax_mos.models.functions import Model, as_model
from fedjax_mos.models.layers import Conv
from fedjax_mos.models.linear import logistic
from fedjax_mos.models.mlp import mlp
from fedjax_mos.models.nnx_modules import from_nnx
from fedjax_mos.models.resnet import resnet18
from fedjax_mos.models.staged import Staged, apply, count, forward, init, staged

__all__ = [
    "Conv",
    "Model",
    "Staged",
    "apply",
    "as_model",
    "cnn",
    "count",
    "fedmos_cifar_cnn3",
    "fedmos_cifar_lenet",
    "fedmos_mnist_cnn",
    "forward",
    "from_nnx",
    "init",
    "logistic",
    "mlp",
    "resnet18",
    "staged",
]
