"""Placeholder header; the partitions follow."""

from typing import NamedTuple

import numpy as np


class Partition(NamedTuple):
    """Which examples belong to which client: positions, client after client."""

    order: np.ndarray  # [sum of sizes]
    size: np.ndarray  # [N]
