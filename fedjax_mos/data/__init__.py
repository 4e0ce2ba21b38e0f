"""Data: the federated store, partitions, sources and augmentation."""

from fedjax_mos.data import partition
from fedjax_mos.data.federated import federate, take, views
from fedjax_mos.data.partition import Partition

__all__ = ["Partition", "federate", "partition", "take", "views"]
