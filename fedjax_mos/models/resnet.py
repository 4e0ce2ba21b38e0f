"""ResNet-18, and narrower, shorter and longer ones, with group normalisation.

He et al., CVPR 2016 [he2016resnet]; Hsieh et al., ICML 2020 [hsieh2020quagmire] (group
instead of batch normalisation: clients' batch statistics differ).
"""

import functools
from typing import Literal

import flax.linen as nn
import jax
import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.models.conv import max_pool
from fedjax_mos.models.layers import Conv, Dense, Initializer, kaiming_fan_out
from fedjax_mos.models.staged import Layer, Staged, staged

_BLOCKS = {10: (1, 1, 1, 1), 18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}


@cite("he2016resnet", "hsieh2020quagmire")
def resnet18(
    classes: int = 10,
    *,
    stem: Literal["3x3", "7x7"] = "3x3",
    groups: int = 2,
    width: int = 64,
    depth: Literal[10, 18, 34] = 18,
) -> Staged:
    """ResNet-18-GN in six stages: stem, four groups of two blocks, classifier.

    The feature vector, 512 averages over space, is the output of the fifth stage. The
    groups have `width`, 2, 4 and 8 times `width` channels; `depth` 10 has one block in
    each, 34 has 3, 4, 6 and 3.

    `stem="3x3"`: the CIFAR form of FedACG [kim2024fedacg], PyTorch's default
    initialisation; d = 11,173,962 (10 classes), 11,220,132 (100), 11,271,432 (200).

    `stem="7x7"`: torchvision's, as in the code descending from FedDyn
    [acar2021feddyn], with its Kaiming-normal convolutions; d = 11,181,642 (10 classes).
    """
    if stem not in ("3x3", "7x7"):
        raise ValueError(f"stem must be '3x3' or '7x7': got {stem!r}")
    if depth not in _BLOCKS:
        raise ValueError(f"depth must be 10, 18 or 34: got {depth!r}")
    if width < 1 or width % groups:
        raise ValueError(f"width must be a multiple of groups, {groups}: got {width}")
    if stem == "3x3":
        kernel_init = None
        front: list[Layer] = [Conv(width, 3, padding=1, use_bias=False)]
        pool: list[Layer] = []
    else:
        kernel_init = kaiming_fan_out
        front = [Conv(width, 7, 2, padding=3, use_bias=False, kernel_init=kernel_init)]
        pool = [_pool_3x3]

    def stage(number: int) -> list[BasicBlock]:
        strides = [2 if number else 1] + [1] * (_BLOCKS[depth][number] - 1)
        features = width * 2**number
        return [BasicBlock(features, s, groups, kernel_init) for s in strides]

    return staged(
        [*front, group_norm(groups), nn.relu, *pool],
        stage(0),
        stage(1),
        stage(2),
        [*stage(3), _mean_over_space],
        [Dense(classes)],
    )


class BasicBlock(nn.Module):
    """relu(GN conv relu GN conv x + shortcut x); a 1x1 shortcut if shapes differ."""

    features: int
    strides: int
    groups: int
    kernel_init: Initializer | None = None

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        conv = functools.partial(
            Conv, self.features, use_bias=False, kernel_init=self.kernel_init
        )
        h = conv(kernel_size=3, strides=self.strides, padding=1)(x)
        h = nn.relu(group_norm(self.groups)(h))
        h = group_norm(self.groups)(conv(kernel_size=3, padding=1)(h))
        if x.shape != h.shape:
            x = conv(kernel_size=1, strides=self.strides)(x)
            x = group_norm(self.groups)(x)
        return nn.relu(h + x)


def group_norm(groups: int) -> nn.GroupNorm:
    """PyTorch's `GroupNorm`: affine, epsilon 1e-5."""
    return nn.GroupNorm(groups, epsilon=1e-5, param_dtype=float)


def _pool_3x3(x: jax.Array) -> jax.Array:
    return max_pool(x, window=3, stride=2, padding=1)


def _mean_over_space(x: jax.Array) -> jax.Array:
    return jnp.mean(x, axis=(1, 2))
