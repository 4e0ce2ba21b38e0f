"""A data set before it is divided among clients, and its one validation."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Examples(NamedTuple):
    """Inputs in their stored dtype and int32 labels, one row per example."""

    x: np.ndarray  # [n, ...]; images are NHWC
    y: np.ndarray  # [n]


class Dataset(NamedTuple):
    """What `load` returns; a model's input is `(x.astype(float32) - mean) / std`."""

    train: Examples
    test: Examples
    valid: Examples | None
    classes: int
    mean: np.ndarray  # per channel or scalar, in the unit in which x is stored
    std: np.ndarray
    groups: np.ndarray | None  # [n] natural client of each training example


def arrays(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    x_valid: ArrayLike | None = None,
    y_valid: ArrayLike | None = None,
    classes: int | None = None,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> Dataset:
    """Your own arrays as a data set, checked once.

    `classes` defaults to the largest label plus one. `mean` and `std` default to those
    of the training images where x is uint8 (per channel), else to 0 and 1. Byte images
    without a channel axis get one.

    >>> x, y = np.zeros((6, 8, 8), np.uint8), np.arange(6) % 3
    >>> data = arrays(x[:4], y[:4], x[4:], y[4:])
    >>> data.train.x.shape, data.classes
    ((4, 8, 8, 1), 3)
    """
    if (x_valid is None) != (y_valid is None):
        raise ValueError("x_valid and y_valid must be given together")
    train = _examples("train", x_train, y_train)
    test = _examples("test", x_test, y_test)
    valid = None
    if x_valid is not None and y_valid is not None:
        valid = _examples("valid", x_valid, y_valid)
    parts = {"train": train, "test": test} | ({"valid": valid} if valid else {})
    if classes is None:
        classes = 1 + max(int(part.y.max()) for part in parts.values())
    if classes < 2:
        raise ValueError(f"classes must be at least 2: got {classes}")
    for name, part in parts.items():
        _check_range(f"y_{name}", part.y, classes)
        if part.x.shape[1:] != train.x.shape[1:] or part.x.dtype != train.x.dtype:
            raise ValueError(
                f"x_{name} must have the shape and dtype of x_train's examples, "
                f"{train.x.shape[1:]} {train.x.dtype}: got {part.x.shape[1:]} "
                f"{part.x.dtype}"
            )
    mean, std = _normalisation(train.x, mean, std)
    return Dataset(
        train=_int32(train),
        test=_int32(test),
        valid=_int32(valid) if valid else None,
        classes=classes,
        mean=mean,
        std=std,
        groups=None if groups is None else _check_groups(groups, len(train.y)),
    )


def _examples(part: str, x: ArrayLike, y: ArrayLike) -> Examples:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind not in "uif":
        raise ValueError(f"x_{part} must hold integers or floats: got dtype {x.dtype}")
    if x.ndim < 2:
        raise ValueError(f"x_{part} must have shape [n, ...]: got {x.shape}")
    if y.dtype.kind not in "ui":
        raise ValueError(f"y_{part} must hold integer labels: got dtype {y.dtype}")
    if y.shape != x.shape[:1]:
        raise ValueError(
            f"y_{part} must have shape [{len(x)}], one label per row of x_{part}: "
            f"got {y.shape}"
        )
    if not x.size:
        raise ValueError(f"x_{part} must not be empty: got shape {x.shape}")
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        bad = int(np.argmin(np.isfinite(x).reshape(len(x), -1).all(axis=1)))
        raise ValueError(
            f"x_{part} must be finite: example {bad} has a NaN or infinite value"
        )
    if x.dtype == np.uint8 and x.ndim == 3:
        x = x[..., None]
    return Examples(x, y)


def _int32(part: Examples) -> Examples:
    return Examples(part.x, part.y.astype(np.int32))


def _check_range(name: str, y: np.ndarray, classes: int) -> None:
    bad = (y < 0) | (y >= classes)
    if bad.any():
        first = int(np.argmax(bad))
        raise ValueError(
            f"{name} must lie in [0, {classes - 1}]: example {first} has label "
            f"{y[first]}"
        )


def _normalisation(
    x: np.ndarray, mean: ArrayLike | None, std: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    if (mean is None) != (std is None):
        raise ValueError("mean and std must be given together")
    if mean is None or std is None:
        mean, std = _statistics(x) if x.dtype == np.uint8 else (0.0, 1.0)
    mean, std = np.asarray(mean, np.float32), np.asarray(std, np.float32)
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
    return mean, std


def _statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of bytes, per channel of images; no float copy."""
    channels = [x[..., c] for c in range(x.shape[-1])] if x.ndim == 4 else [x]
    counts = np.stack([_histogram(channel) for channel in channels])  # [C, 256]
    values = np.arange(256)
    mean = counts @ values / counts.sum(axis=1)
    variance = counts @ values**2 / counts.sum(axis=1) - mean**2
    # A constant channel carries nothing; dividing it by 1 keeps it finite.
    std = np.sqrt(np.where(variance > 0, variance, 1.0))
    return (mean, std) if x.ndim == 4 else (mean[0], std[0])


def _histogram(x: np.ndarray) -> np.ndarray:
    # In blocks, since bincount widens its argument to eight bytes per value.
    blocks = (x[i : i + 1024].ravel() for i in range(0, len(x), 1024))
    return np.sum([np.bincount(block, minlength=256) for block in blocks], axis=0)


def _check_groups(groups: ArrayLike, count: int) -> np.ndarray:
    groups = np.asarray(groups)
    if groups.shape != (count,) or groups.dtype.kind not in "ui":
        raise ValueError(
            f"groups must hold one integer per training example, shape [{count}]: "
            f"got shape {groups.shape}, dtype {groups.dtype}"
        )
    return groups
