"""Which examples belong to which client."""

from typing import NamedTuple

import numpy as np

from fedjax_mos.data.partition_checks import check_between, class_labels
from fedjax_mos.types import ArrayLike


class Partition(NamedTuple):
    """Which examples belong to which client: positions, client after client."""

    order: np.ndarray  #: [sum of sizes]
    size: np.ndarray  #: [N]


def histogram(
    partition: Partition, labels: ArrayLike, classes: int | None = None
) -> np.ndarray:
    """How many examples of each class every client owns, [N, C].

    >>> part = Partition(np.array([1, 2, 0]), np.array([2, 1]))
    >>> histogram(part, np.array([0, 2, 2])).tolist()
    [[0, 0, 2], [1, 0, 0]]
    """
    labels = class_labels(labels)
    C = int(labels.max()) + 1 if classes is None else classes
    check_between(
        "classes", C, int(labels.max()) + 1, np.inf, "one more than any label"
    )
    N = len(partition.size)
    client = np.repeat(np.arange(N), partition.size)
    flat = np.bincount(client * C + labels[partition.order], minlength=N * C)
    return flat.reshape(N, C)
