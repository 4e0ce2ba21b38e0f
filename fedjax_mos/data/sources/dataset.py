"""A data set before it is divided among clients, and its one validation."""

# `help` then shows ArrayLike, not all that it stands for.
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from fedjax_mos.data.array_trees import (
    as_array,
    as_arrays,
    check_values,
    named_leaves,
    rows,
)
from fedjax_mos.data.sources.statistics import normalisation
from fedjax_mos.types import ArrayLike, PyTree


class Examples(NamedTuple):
    """Inputs in their stored dtype and labels, one row per example."""

    x: PyTree  #: leaves [n, ...]; images are NHWC
    y: np.ndarray  #: [n] int32 classes, or anything [n, ...]

    def __repr__(self) -> str:
        """Shapes."""
        return f"Examples(x={jax.tree.map(np.shape, self.x)}, y={self.y.shape})"


class Dataset(NamedTuple):
    """What `load` returns; a model's input is what `normalise` makes of x."""

    train: Examples  #: what clients train on
    test: Examples  #: what final numbers are measured on
    valid: Examples | None  #: what chooses numbers; None: nothing is set aside
    classes: int | None  #: None: labels are not classes
    #: Per channel or scalar, in the unit in which x is stored; for a tree, a tree of
    #: them. None, also within a tree, where x is used as it is.
    mean: PyTree | None
    std: PyTree | None  #: likewise
    groups: np.ndarray | None  #: [n] natural client of each training example

    def __repr__(self) -> str:
        """Shapes, and how many classes and natural clients there are."""
        owners = "" if self.groups is None else f", clients={len({*self.groups})}"
        valid = "" if self.valid is None else f", valid={self.valid}"
        return (
            f"Dataset(train={self.train}, test={self.test}{valid}, "
            f"classes={self.classes}{owners})"
        )


def normalise(dataset: Dataset) -> Callable[[PyTree], PyTree]:
    """x -> (x.astype(float32) - mean) / std, leaf by leaf where there is a mean."""

    def leaf(mean: np.ndarray | None, std: np.ndarray | None, x: PyTree) -> PyTree:
        if mean is None or std is None:
            return x
        mean, std = np.asarray(mean, np.float32), np.asarray(std, np.float32)
        return (x.astype(mean.dtype) - mean) / std

    def normalised(x: PyTree) -> PyTree:
        return jax.tree.map(
            leaf, dataset.mean, dataset.std, x, is_leaf=lambda part: part is None
        )

    return normalised


def arrays(
    x_train: PyTree,
    y_train: ArrayLike,
    x_test: PyTree,
    y_test: ArrayLike,
    *,
    x_valid: PyTree | None = None,
    y_valid: ArrayLike | None = None,
    classes: int | None = None,
    mean: PyTree | None = None,
    std: PyTree | None = None,
    groups: ArrayLike | None = None,
) -> Dataset:
    """Your own arrays as a data set, checked once.

    x is an array [n, ...] or a tree of them, a dict say. Integer labels [n] are
    classes; `classes` defaults to the largest plus one. Other labels (floats, or [n,
    ...]) are taken as they are. `mean` and `std` default to those of the training
    images where x is uint8 (per channel), else x is not normalised. Byte images without
    a channel axis get one.

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
    for name, part in parts.items():
        if classes is not None and part.y.dtype.kind not in "ui":
            raise ValueError(
                f"y_{name} must hold integer labels: got dtype {part.y.dtype} and "
                f"classes {classes}"
            )
        _check_like(name, part, train)
    if _are_classes(train.y):
        if classes is None:
            classes = 1 + max(int(part.y.max()) for part in parts.values())
        _check_classes(parts, classes)
        train, test = _int32(train), _int32(test)
        valid = _int32(valid) if valid else None
    mean, std = normalisation(train.x, mean, std)
    return Dataset(
        train=train,
        test=test,
        valid=valid,
        classes=classes,
        mean=mean,
        std=std,
        groups=None if groups is None else _check_groups(groups, len(train.y)),
    )


def _examples(part: str, x: PyTree, y: ArrayLike) -> Examples:
    x, y = as_arrays(x), as_array(y)
    name = f"y_{part}"
    if y.dtype.kind not in "buif":
        raise ValueError(f"{name} must hold numbers: got dtype {y.dtype}")
    check_values(name, y)
    for where, leaf in named_leaves(f"x_{part}", x):
        if leaf.dtype.kind not in "buif":
            raise ValueError(
                f"{where} must hold integers or floats (or booleans): "
                f"got dtype {leaf.dtype}"
            )
        # A number per example is an input only beside others, in a tree.
        if leaf.ndim < (2 if leaf is x else 1):
            raise ValueError(f"{where} must have shape [n, ...]: got {leaf.shape}")
        if rows(y) != len(leaf):
            raise ValueError(
                f"{name} must have shape [{len(leaf)}] or [{len(leaf)}, ...], one "
                f"label per row of {where}: got {y.shape}"
            )
        if not leaf.size:
            raise ValueError(f"{where} must not be empty: got shape {leaf.shape}")
        check_values(where, leaf)
    return Examples(jax.tree.map(_with_channels, x), y)


def _with_channels(leaf: np.ndarray) -> np.ndarray:
    return leaf[..., None] if leaf.dtype == np.uint8 and leaf.ndim == 3 else leaf


def _are_classes(y: np.ndarray) -> bool:
    return y.dtype.kind in "ui" and y.ndim == 1


def _int32(part: Examples) -> Examples:
    return Examples(part.x, part.y.astype(np.int32))


def _check_like(part: str, given: Examples, train: Examples) -> None:
    """Raise a ValueError unless examples look like those of the training set."""
    parts = [[path for path, _ in named_leaves("x", e.x)] for e in (train, given)]
    if parts[0] != parts[1]:
        raise ValueError(f"x_{part} must have the parts {parts[0]}: got {parts[1]}")
    given_leaves = named_leaves(f"x_{part}", given.x)
    train_leaves = named_leaves("x_train", train.x)
    for (where, leaf), (reference, first) in zip(
        given_leaves, train_leaves, strict=True
    ):
        if leaf.shape[1:] != first.shape[1:] or leaf.dtype != first.dtype:
            raise ValueError(
                f"{where} must have the shape and dtype of {reference}'s examples, "
                f"{first.shape[1:]} {first.dtype}: got {leaf.shape[1:]} {leaf.dtype}"
            )
    floats = given.y.dtype.kind == "f", train.y.dtype.kind == "f"
    if given.y.shape[1:] != train.y.shape[1:] or floats[0] != floats[1]:
        raise ValueError(
            f"y_{part} must have the shape and kind of y_train's labels, "
            f"{train.y.shape[1:]} {train.y.dtype}: got {given.y.shape[1:]} "
            f"{given.y.dtype}"
        )


def _check_classes(parts: dict[str, Examples], classes: int) -> None:
    if not isinstance(classes, int | np.integer):
        raise ValueError(f"classes must be an integer: got {classes!r}")
    if classes < 2:
        raise ValueError(f"classes must be at least 2: got {classes}")
    for name, part in parts.items():
        bad = (part.y < 0) | (part.y >= classes)
        if bad.any():
            first = int(np.argmax(bad))
            raise ValueError(
                f"y_{name} must lie in [0, {classes - 1}]: example {first} has label "
                f"{part.y[first]}"
            )


def _check_groups(groups: ArrayLike, count: int) -> np.ndarray:
    groups = np.asarray(groups)
    if groups.shape != (count,) or groups.dtype.kind not in "ui":
        raise ValueError(
            f"groups must hold one integer per training example, shape [{count}]: "
            f"got shape {groups.shape}, dtype {groups.dtype}"
        )
    return groups
