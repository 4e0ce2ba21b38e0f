"""Data sets by name: built in, found on disk, or your own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_mos.data.generated import Generated
from fedjax_mos.data.sources.csv_files import columns_said, from_csv, has_clients
from fedjax_mos.data.sources.dataset import Dataset, arrays
from fedjax_mos.data.sources.files import open_files
from fedjax_mos.data.sources.formats import keys_of, read_npz
from fedjax_mos.data.sources.images import read_image_folder
from fedjax_mos.data.sources.locate import locate
from fedjax_mos.data.sources.table import SOURCES, Stored
from fedjax_mos.signatures import arguments_of

_PATHS = ("csv", "npz", "folder")  # what stands before a path
_ENDINGS = (".csv", ".npz")


def load(
    name: str, data_dir: str | Path | None = None, **options: float | bool
) -> Dataset | Generated:
    """A data set by name, checked; `options` are those of its generator, if any.

    Names are those of `SOURCES`; `npz:PATH` or a path ending in .npz; `csv:PATH` or a
    path ending in .csv (`from_csv` says of which columns); `folder:PATH` with images in
    train/<class>/ and test/<class>/; `tfds:NAME` for what TensorFlow Datasets has
    prepared. Nothing is ever downloaded: see `fetch.get`.

    >>> data = load("digits")
    >>> data.train.x.shape, data.train.x.dtype.name, data.classes
    ((1078, 8, 8, 1), 'uint8', 10)
    """
    check_source(name)
    kind, _, rest = name.partition(":")
    source = SOURCES.get(name)
    maker = maker_of(name)
    known = [n for n in arguments_of(maker) if n != "path"] if maker else []
    unknown = sorted(options.keys() - {*known})
    if unknown:
        takes = f"the options {', '.join(known)}" if known else "no options"
        raise ValueError(f"{name} takes {takes}: got {unknown}")
    path = path_of(name, data_dir)
    if maker is not None:
        return maker(**options) if path is None else maker(path, **options)
    if path is None:
        from fedjax_mos.data.sources.tfds import load_tfds

        return load_tfds(rest, data_dir)
    if source is not None and source.stored is not None:
        return _load_stored(name, source.stored, path)
    if kind == "folder":
        if not path.is_dir():
            raise FileNotFoundError(
                f"dataset must be a folder that exists: no folder {path}"
            )
        return arrays(**read_image_folder(open_files(path)))
    return arrays(**read_npz(path))


def path_of(name: str, data_dir: str | Path | None = None) -> Path | None:
    """The file or folder that a data set is read from; None: it is made, or TFDS's."""
    kind, _, rest = name.partition(":")
    source = SOURCES.get(name)
    if source is not None and source.stored is not None:
        return locate(name, source.stored.layout, data_dir)
    if source is not None or kind == "tfds":
        return None
    return Path(rest if kind in _PATHS else name).expanduser()


def maker_of(name: str) -> Callable[..., Dataset | Generated] | None:
    """The function that makes a data set with options; None: it has none."""
    if name in SOURCES:
        return SOURCES[name].generate
    return from_csv if _is(name, "csv") else None


def said_of(name: str, **options: Any) -> str | None:
    """What a file's columns are taken for; None where the data set has none."""
    if maker_of(name) is not from_csv:
        return None
    path = path_of(name)
    assert path is not None
    return columns_said(path, **options)


def is_grouped(dataset: object, client: str | None = None) -> bool:
    """Whether data say whose each example is; of files, what they seem to have."""
    if isinstance(dataset, Dataset):
        return dataset.groups is not None
    if not isinstance(dataset, str) or dataset in SOURCES:
        return False
    path = path_of(dataset)
    if path is not None and _is(dataset, "csv"):
        return has_clients(path, client)
    return path is not None and _is(dataset, "npz") and "groups" in keys_of(path)


def check_source(name: str) -> None:
    """Raise a ValueError for what cannot be the name of a data set."""
    kind, _, rest = name.partition(":")
    stored = kind in (*_PATHS, "tfds") and rest
    if name not in SOURCES and not stored and not name.endswith(_ENDINGS):
        raise ValueError(
            f"dataset must be one of {', '.join(SOURCES)}, csv:PATH, npz:PATH, "
            f"folder:PATH or tfds:NAME: got {name!r} (other files: read them with "
            "pandas and use fm.from_frame)"
        )


def _is(name: str, kind: str) -> bool:
    """Whether a name means a file of this kind, by its beginning or its ending."""
    first = name.partition(":")[0]
    return first == kind or first not in _PATHS and name.endswith(f".{kind}")


def _load_stored(name: str, stored: Stored, path: Path) -> Dataset:
    found = read_npz(path) if path.suffix == ".npz" else stored.read(open_files(path))
    try:
        return arrays(
            **found,
            classes=stored.classes,
            mean=255 * np.array(stored.mean),
            std=255 * np.array(stored.std),
        )
    except ValueError as e:
        raise ValueError(f"{path} does not hold {name}: {e}") from e
