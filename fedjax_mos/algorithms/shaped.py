"""Methods that change the local loss only, on FedAvg's server or on FedACG's.

MOON, FedMLB, FedLC, FedNTD and FedDecorr are sums of the terms in `terms.py`, which
gives their references. "+ACG" (Kim et al., CVPR 2024) starts clients from FedACG's
look-ahead point, which is also their anchor or teacher.

One tree up, one down; MOON keeps one tree per client.
"""

from collections.abc import Callable
from typing import Any

import optax

from fedjax_mos import terms
from fedjax_mos.algorithms.fedacg import with_lookahead
from fedjax_mos.algorithms.fedopt import fedopt
from fedjax_mos.losses import Objective, shaped
from fedjax_mos.types import Algorithm, LocalWork, Scalar


def moon(*, weight: Scalar, temperature: Scalar) -> Objective:
    """MOON's objective; the features are those before the classifier."""
    parts = [terms.cross_entropy(), terms.contrastive(weight, temperature)]
    return shaped(parts, keeps_model=True)


def fedmlb(*, ce_weight: Scalar, kl_weight: Scalar) -> Objective:
    """FedMLB's objective."""
    return shaped([terms.cross_entropy(), terms.multi_branch(ce_weight, kl_weight)])


def fedlc(*, temperature: Scalar, include_true: bool = True) -> Objective:
    """FedLC's objective: calibrated cross-entropy alone."""
    return shaped([terms.calibrated(temperature, include_true=include_true)])


def fedntd(*, ce_weight: Scalar, weight: Scalar, temperature: Scalar) -> Objective:
    """FedNTD's objective; the paper's ce_weight is 1, FedACG's program has 0.7."""
    parts = [terms.cross_entropy(ce_weight), terms.not_true(weight, temperature)]
    return shaped(parts)


def feddecorr(*, weight: Scalar) -> Objective:
    """FedDecorr's objective."""
    return shaped([terms.cross_entropy(), terms.decorrelation(weight)])


def on_fedavg(
    objective: Callable[..., Objective],
    local: LocalWork,
    *,
    lr: Scalar,
    server_lr: Scalar,
    **numbers: Any,
) -> Algorithm:
    """FedAvg with `objective(**numbers)` as the local loss."""
    server = optax.sgd(server_lr)
    return fedopt(local, lr=lr, server=server, objective=objective(**numbers))


def on_fedacg(
    objective: Callable[..., Objective],
    local: LocalWork,
    *,
    lr: Scalar,
    server_momentum: Scalar,
    **numbers: Any,
) -> Algorithm:
    """FedACG's server with `objective(**numbers)` as the local loss, "X + ACG"."""
    return with_lookahead(
        local, lr=lr, server_momentum=server_momentum, objective=objective(**numbers)
    )
