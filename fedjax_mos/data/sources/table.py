"""The table of data sets by name."""

from collections.abc import Callable
from typing import NamedTuple

from fedjax_mos.data.generated import Generated
from fedjax_mos.data.sources.dataset import Dataset
from fedjax_mos.data.sources.files import Files
from fedjax_mos.data.sources.formats import (
    Arrays,
    read_cifar10,
    read_cifar100,
    read_idx,
)
from fedjax_mos.data.sources.generators import digits, synthetic, synthetic_population
from fedjax_mos.data.sources.images import read_image_folder
from fedjax_mos.data.sources.locate import Layout


class Stored(NamedTuple):
    """A data set that lies in files."""

    classes: int
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]
    layout: Layout
    read: Callable[[Files], Arrays]


class Source(NamedTuple):
    """One row of the table of data sets."""

    description: str  #: one line
    cites: tuple[str, ...]  #: keys of references.bib
    stored: Stored | None = None  #: of one in files: which, and how they are read
    #: Its options are keyword-only.
    generate: Callable[..., Dataset | Generated] | None = None
    own_clients: bool = False  #: `generate` decides who has what; it takes `clients`


_IDX_MARKERS = tuple(
    f"train-images{dot}idx3-ubyte{gz}" for dot in "-." for gz in ("", ".gz")
)
_IDX_NEEDED = (
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
    "t10k-labels-idx1-ubyte (each plain or .gz)"
)

#: Name -> where the data set comes from.
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
