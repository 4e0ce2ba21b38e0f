"""Federated methods, one (or one family) per file."""

from fedjax_mos.algorithms.fedacg import fedacg, with_lookahead
from fedjax_mos.algorithms.fedadam import (
    fedadagrad,
    fedadam,
    fedams,
    fedyogi,
)
from fedjax_mos.algorithms.fedcm import fedcm
from fedjax_mos.algorithms.feddc import feddc
from fedjax_mos.algorithms.feddyn import feddyn
from fedjax_mos.algorithms.fedglomo import fedglomo, fedlomo
from fedjax_mos.algorithms.fedmos import fedmos
from fedjax_mos.algorithms.fedmos_release import fedmos_release
from fedjax_mos.algorithms.fedopt import fedavg, fedavgm, fedopt, fedprox
from fedjax_mos.algorithms.lag import lag
from fedjax_mos.algorithms.mime import mime, mimelite
from fedjax_mos.algorithms.objective_family import (
    feddecorr,
    feddecorr_acg,
    fedlc,
    fedlc_acg,
    fedmlb,
    fedmlb_acg,
    fedntd,
    fedntd_acg,
    moon,
    moon_acg,
    on_fedacg,
    on_fedavg,
)
from fedjax_mos.algorithms.scaffold import scaffold
from fedjax_mos.algorithms.slowmo import slowmo
from fedjax_mos.algorithms.stem import stem

__all__ = [
    "fedacg",
    "fedadagrad",
    "fedadam",
    "fedams",
    "fedavg",
    "fedavgm",
    "fedcm",
    "feddc",
    "feddecorr",
    "feddecorr_acg",
    "feddyn",
    "fedglomo",
    "fedlc",
    "fedlc_acg",
    "fedlomo",
    "fedmlb",
    "fedmlb_acg",
    "fedmos",
    "fedmos_release",
    "fedntd",
    "fedntd_acg",
    "fedopt",
    "fedprox",
    "fedyogi",
    "lag",
    "mime",
    "mimelite",
    "moon",
    "moon_acg",
    "on_fedacg",
    "on_fedavg",
    "scaffold",
    "slowmo",
    "stem",
    "with_lookahead",
]
