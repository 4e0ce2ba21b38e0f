"""CSV files as data sets: one row per example, columns by name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.data.sources.dataset import Dataset
from fedjax_mos.data.sources.files import check_unpacked
from fedjax_mos.data.sources.frames import from_frame
from fedjax_mos.types import Fraction

if TYPE_CHECKING:
    import pandas as pd

_CLIENT, _SPLIT = "client", "split"  # columns that are used where they are there
_PARTS = ("train", "test")
_FEW = 10  # columns that are named
_WHOSE = "--set client=COLUMN if a column says whose a row is"


def from_csv(
    path: Path,
    *,
    label: str = "label",
    client: str | None = None,
    split: str | None = None,
    test: Fraction = 0.2,
    normalise: bool = True,
) -> Dataset:
    """A CSV file with a column of labels and, perhaps, one that says whose a row is.

    Column `label` is predicted: whole numbers and words are classes, other numbers are
    values. Column `client` says whose a row is, and column `split` whether it is for
    train or test; by default they are called so, where there are such columns. Without
    `split` the fraction `test` of the rows, drawn at random, is tested on. All other
    columns are features and must be numbers; `normalise` subtracts the mean of the
    training rows and divides by their standard deviation.
    """
    frame = _read(path)
    owner = _optional(frame, client, _CLIENT)
    parts = _optional(frame, split, _SPLIT)
    try:
        if label in frame and owner in (None, *frame):
            _check_features(frame, {label, owner, parts}, owner)
        train, held = _split(frame, parts, float(test))
        found = from_frame(train, label, owner, held)
    except ValueError as error:
        hint = f"; --set label=NAME names the label of {path}"
        raise ValueError(
            f"{path}: {error}{hint if label not in frame else ''}"
        ) from None
    if not normalise:
        return found
    x = np.asarray(found.train.x, np.float64)
    std = x.std(axis=0)
    return found._replace(mean=x.mean(axis=0), std=np.where(std > 0, std, 1.0))


def columns_said(
    path: Path,
    *,
    label: str = "label",
    client: str | None = None,
    split: str | None = None,
    **others: object,
) -> str:
    """What the columns of a CSV file are taken for, as its first line tells."""
    frame = _read(path, nrows=0)
    owner = _optional(frame, client, _CLIENT)
    parts = _optional(frame, split, _SPLIT)
    names = [str(name) for name in frame if name not in (label, owner, parts)]
    more = [f"{len(names) - _FEW} more"] if len(names) > _FEW else []
    clients = f"by column {owner}" if owner else f"drawn ({_WHOSE})"
    return f"features: {', '.join([*names[:_FEW], *more])}; clients: {clients}"


def has_clients(path: Path, client: str | None = None) -> bool:
    """Whether a CSV file says whose a row is; its first line tells."""
    if client is not None:
        return True
    try:
        return _CLIENT in _read(path, nrows=0)
    except (OSError, ValueError):
        return False  # who reads it says what is wrong


def _read(path: Path, **options: Any) -> "pd.DataFrame":
    import pandas as pd

    if not path.is_file():
        raise FileNotFoundError(f"dataset must be a file that exists: no file {path}")
    try:
        check_unpacked(path.stat().st_size, "it")
        frame = pd.read_csv(path, compression=None, low_memory=False, **options)
    except Exception as error:  # a file that is no CSV may raise anything
        raise ValueError(f"{path} is not usable as CSV: {error}") from error
    nameless = [name for name in frame.columns if str(name).startswith("Unnamed: ")]
    if nameless:
        raise ValueError(
            f"{path} must have a name for every column: got {len(nameless)} without "
            "(an index, which to_csv(index=False) leaves out?)"
        )
    return frame


def _check_features(
    frame: "pd.DataFrame", others: set[str | None], client: str | None
) -> None:
    """Refuse words and missing values by the file's own columns and rows."""
    features = frame[[name for name in frame if name not in others]]
    numbers = features.select_dtypes(["number", "bool"])
    if words := [str(name) for name in features if name not in numbers]:
        hint = f"; if it says whose a row is: --set client={words[0]}"
        raise ValueError(
            f"features must be numbers: got words in column {words[0]!r}"
            f"{hint if client is None else ''}"
        )
    wrong = np.argwhere(~np.isfinite(numbers.to_numpy(np.float64)))
    if len(wrong):
        row, column = wrong[0]
        raise ValueError(
            f"features must be finite: got {numbers.to_numpy(float)[row, column]} in "
            f"row {row + 1} (without the header and blank lines), "
            f"column {numbers.columns[column]!r}"
        )


def _optional(frame: "pd.DataFrame", given: str | None, usual: str) -> str | None:
    """The column that is asked for, or the usual one if it is there."""
    return usual if given is None and usual in frame else given


def _split(
    frame: "pd.DataFrame", split: str | None, test: float
) -> "tuple[pd.DataFrame, pd.DataFrame | float]":
    """The rows to train on, and those to test on or how many."""
    if split is None:
        return frame, test
    if split not in frame:
        raise ValueError(f"split must be a column: got {split!r} of {list(frame)}")
    if {*frame[split]} != {*_PARTS}:
        found = sorted(map(str, {*frame[split]}))
        raise ValueError(f"column {split} must hold train and test: got {found[:5]}")
    rest = frame.drop(columns=split)
    return rest[frame[split] == "train"], rest[frame[split] == "test"]
