"""Layers with PyTorch's default initialisation.

PyTorch draws weights and biases of Linear and Conv2d from U(-b, b) with
b = 1 / sqrt(fan_in), where fan_in counts the inputs of one output. The released code of
FedMoS, FedACG, FedCAMS and clustered sampling all starts there, and so do we.
Parameters are float32, or float64 under `jax_enable_x64`.
"""

import math
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen.dtypes import promote_dtype

from fedjax_mos.models.conv import convolution
from fedjax_mos.models.products import matmul

Initializer = Callable[..., jax.Array]  # (key, shape) -> array


def fan_in_uniform(fan_in: int) -> Initializer:
    """U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), PyTorch's default."""
    bound = 1 / math.sqrt(fan_in)

    def init(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        # Flat draws compile several times faster than shaped ones and are the same.
        draw = jax.random.uniform(key, (math.prod(shape),), minval=-bound, maxval=bound)
        return draw.reshape(shape)

    return init


def kaiming_fan_out(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """N(0, 2 / fan_out) for a kernel [h, w, C, F], fan_out = h w F.

    He et al., ICCV 2015 [he2015rectifiers]; torchvision's ResNets.
    """
    height, width, _, features = shape
    draw = jax.random.normal(key, (math.prod(shape),))
    return math.sqrt(2 / (height * width * features)) * draw.reshape(shape)


class Dense(nn.Module):
    """`torch.nn.Linear`: x [..., n] -> [..., features]."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        init = fan_in_uniform(x.shape[-1])
        kernel = self.param("kernel", init, (x.shape[-1], self.features))
        return matmul(*promote_dtype(x, kernel)) + self.param(
            "bias", init, (self.features,)
        )


class Conv(nn.Module):
    """`torch.nn.Conv2d` with a square kernel: x [B, H, W, C] -> [B, H', W', features].

    `padding` counts zeros on each side, which differs from "SAME" for even strides.
    """

    features: int  #: channels of the output
    kernel_size: int  #: of both axes
    strides: int = 1  #: of both axes
    padding: int | str = 0  #: zeros on each side, or "SAME" or "VALID"
    use_bias: bool = True  #: whether one is added
    kernel_init: Initializer | None = None  #: None: PyTorch's default

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
        default = fan_in_uniform(math.prod(shape[:-1]))
        kernel = self.param("kernel", self.kernel_init or default, shape)
        x, kernel = promote_dtype(x, kernel)
        pads = self.padding
        y = convolution(
            x,
            kernel,
            (self.strides, self.strides),
            pads if isinstance(pads, str) else [(pads, pads)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        if self.use_bias:
            y += self.param("bias", default, (self.features,))
        return y


def channel_dropout(rate: float) -> nn.Dropout:
    """`torch.nn.Dropout2d`: a channel of an example is dropped as a whole."""
    return nn.Dropout(rate, broadcast_dims=(1, 2))


def flatten(x: jax.Array) -> jax.Array:
    """[B, ...] -> [B, n]."""
    return jnp.reshape(x, (x.shape[0], -1))
