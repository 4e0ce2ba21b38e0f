"""Federated methods, one (or one family) per file."""

from fedjax_mos.algorithms.fedacg import fedacg, with_lookahead
from fedjax_mos.algorithms.fedcm import fedcm
from fedjax_mos.algorithms.feddc import feddc
from fedjax_mos.algorithms.feddyn import feddyn
from fedjax_mos.algorithms.fedglomo import fedglomo, fedlomo
from fedjax_mos.algorithms.fedmos import fedmos
from fedjax_mos.algorithms.fedmos_release import fedmos_release
from fedjax_mos.algorithms.fedopt import (
    fedadagrad,
    fedadam,
    fedams,
    fedavg,
    fedavgm,
    fedopt,
    fedprox,
    fedyogi,
)
from fedjax_mos.algorithms.lag import lag
from fedjax_mos.algorithms.mime import mime, mimelite
from fedjax_mos.algorithms.scaffold import scaffold
from fedjax_mos.algorithms.slowmo import slowmo
from fedjax_mos.algorithms.stem import stem
from fedjax_mos.algorithms.tracked import tracked

__all__ = [
    "fedacg",
    "fedadagrad",
    "fedadam",
    "fedams",
    "fedavg",
    "fedavgm",
    "fedcm",
    "feddc",
    "feddyn",
    "fedglomo",
    "fedlomo",
    "fedmos",
    "fedmos_release",
    "fedopt",
    "fedprox",
    "fedyogi",
    "lag",
    "mime",
    "mimelite",
    "scaffold",
    "slowmo",
    "stem",
    "tracked",
    "with_lookahead",
]
