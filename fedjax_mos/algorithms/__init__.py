"""Federated methods, one per file."""

from fedjax_mos.algorithms.fedmos import fedmos
from fedjax_mos.algorithms.fedmos_release import fedmos_release
from fedjax_mos.algorithms.fedopt import fedavg, fedopt

__all__ = ["fedavg", "fedmos", "fedmos_release", "fedopt"]
