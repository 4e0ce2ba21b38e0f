"""FedAdagrad, FedAdam, FedYogi and FedAMS: FedOpt with an adaptive server.

Reddi et al., ICLR 2021 [reddi2021adaptive]; FedAMS: Wang et al., ICML 2022
[wang2022fedams].

Client i runs local SGD and sends y_K - x. Server, with delta the mean of these:

    m <- b1 m + (1 - b1) delta,   v as below,   x <- x + server_lr m / (sqrt(v) + eps)

`server_optimizers.py` has the steps. None has client state; one tree up, one down;
K gradient evaluations.

    paper   eta_l   eta         beta_1   beta_2   tau
    here    lr      server_lr   b1       b2       eps
"""

from functools import partial
from typing import Literal

import optax

from fedjax_mos.algorithms import server_optimizers as optimizers
from fedjax_mos.algorithms.fedopt import on_fedopt
from fedjax_mos.components import cite
from fedjax_mos.types import NonNegative, Positive, Unit


@on_fedopt
@cite("reddi2021adaptive")
def fedadagrad(
    *, server_lr: NonNegative = 0.01, b1: Unit = 0.0, eps: Positive = 1e-3
) -> optax.GradientTransformation:
    """FedAdagrad: v <- v + delta^2."""
    return optimizers.adagrad(server_lr, b1, eps)


@on_fedopt
@cite("reddi2021adaptive")
def fedadam(
    *,
    server_lr: NonNegative = 0.01,
    b1: Unit = 0.9,
    b2: Unit = 0.99,
    eps: Positive = 1e-3,
) -> optax.GradientTransformation:
    """FedAdam: v <- b2 v + (1 - b2) delta^2; no bias correction, v_0 = eps^2."""
    return optimizers.adam(server_lr, b1, b2, eps)


@on_fedopt
@cite("reddi2021adaptive")
def fedyogi(
    *,
    server_lr: NonNegative = 0.01,
    b1: Unit = 0.9,
    b2: Unit = 0.99,
    eps: Positive = 1e-3,
) -> optax.GradientTransformation:
    """FedYogi: v <- v - (1 - b2) delta^2 sign(v - delta^2)."""
    return optimizers.yogi(server_lr, b1, b2, eps)


@partial(on_fedopt, lr=0.01)
@cite("wang2022fedams")
def fedams(
    *,
    server_lr: NonNegative = 1.0,
    b1: Unit = 0.9,
    b2: Unit = 0.99,
    eps: Positive = 1e-3,
    option: Literal[1, 2] = 1,
    bias_correction: bool = False,
    eps_inside: bool = False,
) -> optax.GradientTransformation:
    """FedAMS: FedAdam with a running maximum of v.

    Option 1 bounds it below by eps, option 2 adds eps to its root, or with `eps_inside`
    to what the root is taken of. The paper has no `bias_correction`, its released
    program does.
    """
    return optimizers.ams(server_lr, b1, b2, eps, option, bias_correction, eps_inside)
