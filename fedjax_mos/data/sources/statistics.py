"""Mean and standard deviation with which inputs are normalised."""

from typing import NamedTuple

import jax
import numpy as np

from fedjax_mos.types import ArrayLike, PyTree


class Moments(NamedTuple):
    """Of one leaf of x; None: it is not normalised."""

    mean: ArrayLike | None
    std: ArrayLike | None


def normalisation(
    x: PyTree, mean: PyTree | None, std: PyTree | None
) -> tuple[PyTree | None, PyTree | None]:
    """(mean, std) as given, else those of the uint8 leaves of x; None for the others.

    Given for a tree x, they are trees of the same structure.
    """
    if (mean is None) != (std is None):
        raise ValueError("mean and std must be given together")
    found = jax.tree.map(_statistics, x) if mean is None else _paired(x, mean, std)
    checked = jax.tree.map(_checked, x, found)
    mean = jax.tree.map(lambda _, moments: moments.mean, x, checked)
    std = jax.tree.map(lambda _, moments: moments.std, x, checked)
    return (mean, std) if jax.tree.leaves(mean) else (None, None)


def _paired(x: PyTree, mean: PyTree, std: PyTree) -> PyTree:
    try:
        return jax.tree.map(lambda _, m, s: Moments(m, s), x, mean, std)
    except ValueError as error:
        raise ValueError(
            "mean and std must have the structure of x_train, "
            f"{jax.tree.structure(x)}: got {mean!r} and {std!r}"
        ) from error


def _checked(x: np.ndarray, given: Moments) -> Moments:
    if given.mean is None or given.std is None:
        return Moments(None, None)
    mean, std = np.asarray(given.mean, np.float32), np.asarray(given.std, np.float32)
    for name, value in (("mean", mean), ("std", std)):
        if value.shape not in ((), x.shape[-1:]):
            raise ValueError(
                f"{name} must be a scalar or have shape {x.shape[-1:]}, one value per "
                f"channel: got {value.shape}"
            )
        if not np.isfinite(value).all():
            raise ValueError(f"{name} must be finite: got {value}")
    if not (std > 0).all():
        raise ValueError(f"std must be positive: got {std}")
    return Moments(mean, std)


def _statistics(x: np.ndarray) -> Moments:
    """Of bytes, per channel of images, without a float copy; of nothing else."""
    if x.dtype != np.uint8:
        return Moments(None, None)
    channels = [x[..., c] for c in range(x.shape[-1])] if x.ndim == 4 else [x]
    counts = np.stack([_histogram(channel) for channel in channels])  # [C, 256]
    values = np.arange(256)
    mean = counts @ values / counts.sum(axis=1)
    variance = counts @ values**2 / counts.sum(axis=1) - mean**2
    # A constant channel carries nothing; dividing it by 1 keeps it finite.
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    return Moments(mean, std) if x.ndim == 4 else Moments(mean[0], std[0])


def _histogram(x: np.ndarray) -> np.ndarray:
    # In blocks, since bincount widens its argument to eight bytes per value.
    blocks = (x[i : i + 1024].ravel() for i in range(0, len(x), 1024))
    return np.sum([np.bincount(block, minlength=256) for block in blocks], axis=0)
