"""Pandas frames as data sets: one row per example."""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.data.sources.dataset import Dataset, arrays

if TYPE_CHECKING:
    import pandas as pd


def from_frame(
    frame: "pd.DataFrame",
    label: Hashable,
    client: Hashable | None = None,
    test: "float | pd.DataFrame" = 0.2,
    features: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> Dataset:
    """A frame with a column of labels and, perhaps, one that says whose a row is.

    `features` are numeric columns, by default all others; they become x [n, F] float32,
    not normalised. Integer labels are classes, floats are values to predict; any other
    labels are numbered in sorted order. The values of column `client`, of any kind, are
    numbered as they appear and become `groups`, for the partition `natural`. `test` is
    a fraction of the rows, drawn at random, or another frame with the same columns.

    >>> import pandas as pd
    >>> rows = {"who": list("abab"), "a": [1, 2, 3, 4], "kind": list("xyxy")}
    >>> data = from_frame(pd.DataFrame(rows), "kind", "who", test=0.25)
    >>> data.train.x.shape, data.classes, data.groups.tolist()
    ((3, 1), 2, [0, 1, 1])
    """
    _check_columns("frame", frame, [label, *([] if client is None else [client])])
    if features is None:
        features = [c for c in frame.columns if c not in (label, client)]
    _check_features(frame, features)
    if label in features:
        raise ValueError(f"features must not name the label: got {label!r} among them")
    train, held = _split(frame, test, seed)
    _check_columns("test", held, [label, *features])
    _check_features(held, features)
    _check_complete("label", frame[label])
    if client is not None:
        _check_complete("client", frame[client])
    _check_complete("label", held[label])
    numbered = _numbering(frame[label])
    found = arrays(
        train[list(features)].to_numpy(float),  # in full: what does not fit is refused
        numbered(train[label]),
        held[list(features)].to_numpy(float),
        numbered(held[label]),
        groups=None if client is None else _groups(train[client]),
    )
    parts = {name: getattr(found, name) for name in ("train", "test")}
    return found._replace(
        **{n: part._replace(x=part.x.astype(np.float32)) for n, part in parts.items()}
    )


def _split(
    frame: "pd.DataFrame", test: "float | pd.DataFrame", seed: int
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """The rows to train on, in their order, and those to test on."""
    import pandas as pd

    if isinstance(test, pd.DataFrame):
        return frame, test
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be an integer of at least 0: got {seed!r}")
    number = isinstance(test, int | float | np.number) and 0 < test < 1
    held = round(test * len(frame)) if number else 0
    if not 0 < held < len(frame):
        raise ValueError(
            "test must be a frame, or a fraction that leaves rows on both sides of the "
            f"{len(frame)}: got {test!r}"
        )
    chosen = np.zeros(len(frame), bool)
    chosen[np.random.default_rng(seed).permutation(len(frame))[:held]] = True
    return frame[~chosen], frame[chosen]


def _numbering(labels: "pd.Series") -> "Callable[[pd.Series], np.ndarray]":
    """Numbers as they are; other labels as their place among the sorted ones."""
    if labels.dtype.kind in "uif":
        return lambda column: column.to_numpy()
    place = {name: i for i, name in enumerate(sorted(set(labels), key=str))}

    def numbered(column: "pd.Series") -> np.ndarray:
        unknown = sorted(set(column) - place.keys(), key=str)
        if unknown:
            raise ValueError(f"test must have labels of frame: got {unknown} besides")
        return column.map(place).to_numpy(int)

    return numbered


def _groups(column: "pd.Series") -> np.ndarray:
    import pandas as pd

    return pd.factorize(column)[0]


def _check_columns(
    where: str, frame: "pd.DataFrame", wanted: Sequence[Hashable]
) -> None:
    if not frame.columns.is_unique:
        raise ValueError(
            f"{where} must name its columns differently: got {list(frame)}"
        )
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{where} must have the columns {missing}: got {list(frame.columns)}"
        )


def _check_features(frame: "pd.DataFrame", features: Sequence[Hashable]) -> None:
    if not len(features):
        raise ValueError("features must name at least one column: got none")
    _check_columns("frame", frame, features)
    other = {
        c: str(frame[c].dtype) for c in features if frame[c].dtype.kind not in "buif"
    }
    if other:
        raise ValueError(
            f"features must be numeric columns: got {other}; encode them or choose "
            "others with features="
        )


def _check_complete(name: str, column: "pd.Series") -> None:
    missing = int(column.isna().sum())
    if missing:
        raise ValueError(
            f"{name} must be given in every row: got {missing} missing values in "
            f"column {column.name!r}"
        )
