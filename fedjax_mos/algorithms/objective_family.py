"""Methods that change the local loss only, on FedAvg's server or on FedACG's.

The losses, with their references, are in `objectives.methods`. "X + ACG", Kim et al.,
CVPR 2024 [kim2024fedacg], starts clients from FedACG's look-ahead point, which is also
their anchor or teacher.

One tree up, one down; MOON keeps one tree per client.
"""

from collections.abc import Callable

import optax

from fedjax_mos.algorithms.composed import MakeAlgorithm, composed
from fedjax_mos.algorithms.fedacg import with_lookahead
from fedjax_mos.algorithms.fedopt import fedopt
from fedjax_mos.components import cited, description, name_of
from fedjax_mos.objectives import Objective, methods
from fedjax_mos.types import NonNegative

MakeObjective = Callable[..., Objective]  # (*, options)


def average(*, server_lr: NonNegative = 1.0) -> optax.GradientTransformation:
    """FedAvg's server: x <- x + server_lr * mean_i delta_i."""
    return optax.sgd(server_lr)


def on_fedavg(objective: MakeObjective, *, lr: float = 0.1) -> MakeAlgorithm:
    """FedAvg with the local loss `objective(**options)`; its options become options.

    >>> from fedjax_mos import objectives, spec
    >>> spec(on_fedavg(objectives.near_anchor), prox=0.5).hp
    {'lr': 0.1, 'server_lr': 1.0, 'prox': 0.5}
    """
    return composed(
        fedopt,
        {"server_optimizer": average, "objective": objective},
        name=name_of(objective),
        doc=objective.__doc__,
        cites=cited(objective),
        module=__name__,
        lr=lr,
    )


def on_fedacg(objective: MakeObjective, *, lr: float = 0.1) -> MakeAlgorithm:
    """FedACG's server with the local loss `objective(**options)`: "X + ACG"."""
    return composed(
        with_lookahead,
        {"objective": objective},
        name=f"{name_of(objective)}_acg",
        doc=f"{description(objective)} On FedACG's server.",
        cites=(*cited(objective), *cited(with_lookahead)),
        module=__name__,
        lr=lr,
    )


moon, moon_acg = on_fedavg(methods.moon), on_fedacg(methods.moon)
fedmlb, fedmlb_acg = on_fedavg(methods.fedmlb), on_fedacg(methods.fedmlb)
fedlc, fedlc_acg = on_fedavg(methods.fedlc), on_fedacg(methods.fedlc)
fedntd, fedntd_acg = on_fedavg(methods.fedntd), on_fedacg(methods.fedntd)
feddecorr, feddecorr_acg = on_fedavg(methods.feddecorr), on_fedacg(methods.feddecorr)
