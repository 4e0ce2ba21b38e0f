"""Data sets by name: built in, found on disk, or your own."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_mos.data.generated import Generated
from fedjax_mos.data.sources.dataset import Dataset, arrays
from fedjax_mos.data.sources.files import Files, open_files
from fedjax_mos.data.sources.formats import (
    Arrays,
    read_cifar10,
    read_cifar100,
    read_idx,
    read_npz,
)
from fedjax_mos.data.sources.generators import digits, synthetic, synthetic_population
from fedjax_mos.data.sources.images import read_image_folder
from fedjax_mos.data.sources.locate import Layout, locate
from fedjax_mos.signatures import arguments_of


class Stored(NamedTuple):
    """A data set that lies in files."""

    classes: int
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]
    layout: Layout
    read: Callable[[Files], Arrays]


class Source(NamedTuple):
    """One row of the table of data sets."""

    description: str
    cites: tuple[str, ...]  # keys of references.bib
    stored: Stored | None = None
    generate: Callable[..., Dataset | Generated] | None = (
        None  # its options are keyword-only
    )
    own_clients: bool = False  # `generate` decides who has what; it takes `clients`


_IDX_MARKERS = tuple(
    f"train-images{dot}idx3-ubyte{gz}" for dot in "-." for gz in ("", ".gz")
)
_IDX_NEEDED = (
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each plain or .gz)"
)

SOURCES: dict[str, Source] = {
    "digits": Source(
        "1797 handwritten digits, 8 x 8, part of scikit-learn",
        ("alpaydin1998digits",),
        generate=digits,
    ),
    "synthetic": Source(
        "synthetic(alpha, beta): 60 features, 10 classes, a different model per client",
        ("li2020fedprox",),
        generate=synthetic,
        own_clients=True,
    ),
    "synthetic_population": Source(
        "synthetic(alpha, beta) for up to ten million clients, made as they are drawn",
        ("li2020fedprox",),
        generate=synthetic_population,
        own_clients=True,
    ),
    "mnist": Source(
        "70 000 handwritten digits, 28 x 28 grey",
        ("lecun1998mnist",),
        Stored(
            10,
            (0.1307,),
            (0.3081,),
            Layout(("mnist", "MNIST"), _IDX_MARKERS, _IDX_NEEDED),
            read_idx,
        ),
    ),
    "fashion_mnist": Source(
        "70 000 articles of clothing, 28 x 28 grey",
        ("xiao2017fashion",),
        Stored(
            10,
            (0.2860,),
            (0.3530,),
            Layout(
                ("fashion_mnist", "fashion-mnist", "FashionMNIST"),
                _IDX_MARKERS,
                _IDX_NEEDED,
            ),
            read_idx,
        ),
    ),
    "cifar10": Source(
        "60 000 images in 10 classes, 32 x 32 colour",
        ("krizhevsky2009learning",),
        Stored(
            10,
            (0.4914, 0.4822, 0.4465),
            (0.2023, 0.1994, 0.2010),
            Layout(
                ("cifar10", "cifar-10-batches-bin", "cifar-10-batches-py"),
                (
                    "data_batch_1.bin",
                    "data_batch_1",
                    "cifar-10-binary.tar.gz",
                    "cifar-10-python.tar.gz",
                ),
                "cifar-10-binary.tar.gz or cifar-10-python.tar.gz, or what is in it,",
            ),
            read_cifar10,
        ),
    ),
    "cifar100": Source(
        "60 000 images in 100 classes, 32 x 32 colour",
        ("krizhevsky2009learning",),
        Stored(
            100,
            (0.5071, 0.4867, 0.4408),
            (0.2675, 0.2565, 0.2761),
            Layout(
                ("cifar100", "cifar-100-binary", "cifar-100-python"),
                (
                    "train.bin",
                    "train",
                    "cifar-100-binary.tar.gz",
                    "cifar-100-python.tar.gz",
                ),
                "cifar-100-binary.tar.gz or cifar-100-python.tar.gz, or what is in it,",
            ),
            read_cifar100,
        ),
    ),
    "tiny_imagenet": Source(
        "110 000 images in 200 classes, 64 x 64 colour; test is the validation set",
        ("le2015tiny",),
        Stored(
            200,
            (0.4802, 0.4481, 0.3975),
            (0.2770, 0.2691, 0.2821),
            Layout(
                ("tiny_imagenet", "tiny-imagenet-200"),
                ("wnids.txt", "tiny-imagenet-200.zip"),
                "tiny-imagenet-200.zip, or what is in it,",
            ),
            read_image_folder,
        ),
    ),
}


def load(
    name: str, data_dir: str | Path | None = None, **options: float | bool
) -> Dataset | Generated:
    """A data set by name, checked; `options` are those of its generator, if any.

    Names are those of `SOURCES`; `npz:PATH` or a path ending in .npz; `folder:PATH`
    with images in train/<class>/ and test/<class>/; `tfds:NAME` for what TensorFlow
    Datasets has prepared. Nothing is ever downloaded: see `fetch.get`.

    >>> data = load("digits")
    >>> data.train.x.shape, data.train.x.dtype.name, data.classes
    ((1078, 8, 8, 1), 'uint8', 10)
    """
    check_source(name)
    kind, _, rest = name.partition(":")
    source = SOURCES.get(name)
    generate = None if source is None else source.generate
    known = arguments_of(generate) if generate else {}
    unknown = sorted(options.keys() - known)
    if unknown:
        takes = f"the options {', '.join(known)}" if known else "no options"
        raise ValueError(f"{name} takes {takes}: got {unknown}")
    if generate is not None:
        return generate(**options)
    path = path_of(name, data_dir)
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
    return Path(rest if kind in ("npz", "folder") else name).expanduser()


def check_source(name: str) -> None:
    """Raise a ValueError for what cannot be the name of a data set."""
    kind, _, rest = name.partition(":")
    stored = kind in ("npz", "folder", "tfds") and rest
    if name not in SOURCES and not stored and not name.endswith(".npz"):
        raise ValueError(
            f"dataset must be one of {', '.join(SOURCES)}, npz:PATH, folder:PATH or "
            f"tfds:NAME: got {name!r}"
        )


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
