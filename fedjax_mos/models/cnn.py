"""Small convolutional networks: those of FedMoS and the one of FedAvg's size.

Wang et al., INFOCOM 2023 [wang2023fedmos]; released code, `models/Nets.py`.
Convolutions are valid (no padding) and pooling is 2x2, so the nets fit other image
sizes too; the counts are for the original ones.
"""

import flax.linen as nn

from fedjax_mos.components import cite
from fedjax_mos.models.conv import max_pool
from fedjax_mos.models.layers import Conv, Dense, channel_dropout, flatten
from fedjax_mos.models.staged import Staged, staged


@cite("wang2023fedmos")
def fedmos_mnist_cnn(classes: int = 10, *, dropout: float = 0.5) -> Staged:
    """FedMoS `CNNMnist`: 28x28x1, d = 21,840. Pooling comes before the ReLU."""
    return staged(
        [Conv(10, 5), max_pool, nn.relu],
        [Conv(20, 5), channel_dropout(dropout), max_pool, nn.relu],
        [flatten, Dense(50), nn.relu, nn.Dropout(dropout)],
        [Dense(classes)],
    )


@cite("wang2023fedmos")
def fedmos_cifar_cnn3(classes: int = 10, *, dropout: float = 0.2) -> Staged:
    """FedMoS `CNNCifar`, also of clustered sampling: 32x32x3, d = 122,570.

    Three convolutions, the last without a ReLU, as released.
    """
    return staged(
        [Conv(32, 3), nn.relu, max_pool, nn.Dropout(dropout)],
        [Conv(64, 3), nn.relu, max_pool, nn.Dropout(dropout)],
        [Conv(64, 3), nn.Dropout(dropout)],
        [flatten, Dense(64), nn.relu],
        [Dense(classes)],
    )


@cite("wang2023fedmos")
def fedmos_cifar_lenet(classes: int = 10) -> Staged:
    """FedMoS' other CIFAR net, two convolutions and three Dense: 32x32x3, d = 62,006.

    Commented out in the release, but the one its paper describes.
    """
    return staged(
        [Conv(6, 5), nn.relu, max_pool],
        [Conv(16, 5), nn.relu, max_pool],
        [flatten, Dense(120), nn.relu],
        [Dense(84), nn.relu],
        [Dense(classes)],
    )


@cite("mcmahan2017fedavg")
def cnn(classes: int = 10) -> Staged:
    """The CNN of FedAvg without padding.

    28x28x1, d = 582,026: the net of most simulators' MNIST and EMNIST baselines.
    """
    return staged(
        [Conv(32, 5), nn.relu, max_pool],
        [Conv(64, 5), nn.relu, max_pool],
        [flatten, Dense(512), nn.relu],
        [Dense(classes)],
    )
