"""Data: sources, partitions, the federated store and augmentation."""

from fedjax_mos.data import augment, partitions
from fedjax_mos.data import sources as datasets
from fedjax_mos.data.partitions import Partition
from fedjax_mos.data.sources import Dataset, arrays, from_frame, load, normalise
from fedjax_mos.data.store import federate, take, views

__all__ = [
    "Dataset",
    "Partition",
    "arrays",
    "augment",
    "datasets",
    "federate",
    "from_frame",
    "load",
    "normalise",
    "partitions",
    "take",
    "views",
]
