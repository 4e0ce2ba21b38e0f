"""What partitions are given, checked, and how they begin."""

import numpy as np

from fedjax_mos.types import ArrayLike, Scalar

_SMALLEST = float(np.finfo(np.float32).tiny)


def begin(
    labels: ArrayLike, clients: int, seed: int
) -> tuple[int, np.random.Generator]:
    """The number of examples, and the generator."""
    shape = np.shape(labels)
    if not shape:
        raise ValueError(f"labels must have one row per example: got {labels!r}")
    check_between("clients", clients, 1, shape[0], "the number of examples")
    check_between("seed", seed, 0, np.inf, "as NumPy's generators have it")
    return shape[0], np.random.default_rng(seed)


def start(
    labels: ArrayLike, clients: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Labels renumbered 0, ..., C - 1, the counts [C] of each, and the generator."""
    labels = class_labels(labels)
    _, rng = begin(labels, clients, seed)
    _, kind, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return kind, counts, rng


def class_labels(labels: ArrayLike) -> np.ndarray:
    """The labels, if they are the numbers of classes."""
    labels = np.asarray(labels)
    integers = np.issubdtype(labels.dtype, np.integer)
    negative = integers and labels.min(initial=0) < 0
    if labels.ndim != 1 or not integers or negative:
        smallest = f", smallest {labels.min()}" if negative else ""
        raise ValueError(
            "labels must be a 1-D array of non-negative integers: got shape "
            f"{labels.shape}, dtype {labels.dtype}{smallest}"
        )
    return labels.astype(int)


def check_between(name: str, value: int, low: int, high: float, meaning: str) -> None:
    """Refuse an integer outside [low, high], by name."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer: got {value!r}")
    if not low <= value <= high:
        raise ValueError(
            f"{name} must be between {low} and {high} ({meaning}): got {value}"
        )


def check_positive(name: str, value: Scalar) -> None:
    """Refuse a number that is not positive and finite, by name.

    The logarithms of weights by a smaller one overflow, and no class is ever drawn.
    """
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be positive and finite: got {value}")
    if value < _SMALLEST:
        raise ValueError(f"{name} must be at least {_SMALLEST:.3g}: got {value}")


def check_enough(sizes: np.ndarray, kind: np.ndarray, advice: str) -> None:
    """Refuse sizes that ask for more examples than there are."""
    if sizes.sum() > len(kind):
        raise ValueError(
            f"{len(sizes)} clients ask for {sizes.sum()} examples and there are "
            f"{len(kind)}: {advice}"
        )
