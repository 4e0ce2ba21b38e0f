"""Partitions in files: who owns which example, to be given to another experiment."""

from pathlib import Path

import numpy as np

from fedjax_mos.data.partitions import Partition
from fedjax_mos.data.sources.formats import check_npz
from fedjax_mos.types import ArrayLike

PREFIX = "npz:"


def write_partition(path: Path | str, partition: Partition) -> None:
    """Keep a partition as .npz: `order`, positions client after client, and `size`."""
    with Path(path).open("wb") as file:
        np.savez_compressed(
            file, allow_pickle=False, order=partition.order, size=partition.size
        )


def stored(labels: ArrayLike, clients: int, seed: int, *, path: str) -> Partition:
    """The partition of a file, which says itself how many clients there are."""
    try:
        check_npz(Path(path), Partition._fields)
        with np.load(path, allow_pickle=False) as file:
            found = Partition(file["order"], file["size"])
    except Exception as error:  # a damaged archive may raise anything
        raise ValueError(
            f"partition must be npz:PATH of a file with `order` and `size`: {path} is "
            f"not ({error})"
        ) from error
    for name, values in found._asdict().items():
        if values.ndim != 1 or values.dtype.kind not in "ui" or not len(values):
            raise ValueError(
                f"{name} in {path} must be a list of integers: got shape "
                f"{values.shape}, dtype {values.dtype}"
            )
    count = np.shape(labels)[0]
    if found.order.max() >= count:
        raise ValueError(
            f"order in {path} must lie in [0, {count - 1}], the examples of this data "
            f"set: it has {found.order.max()}"
        )
    return found
