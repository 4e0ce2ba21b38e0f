"""Folders of image files: Tiny ImageNet's layout and the usual one.

    train/<class>/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt
    train/<class>/*.png, test/<class>/*.png

Classes are numbered in the order of their sorted folder names.
"""

import io
import math
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.data.sources.files import Files, member
from fedjax_mos.data.sources.formats import Arrays
from fedjax_mos.memory import check_fits

if TYPE_CHECKING:
    from PIL.Image import Image

_MOST = 2**24  # pixels; thousands of such images fit no machine
# Modes of 8 bits or fewer per channel, as Pillow calls them.
_BYTES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "La"}
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}


def read_image_folder(files: Files) -> Arrays:
    """Decode every image; all must have the size of the first."""
    train = dict(_by_class(files, "train"))
    annotations = member(files, "val_annotations.txt")
    # Tiny ImageNet's test images have no labels: its validation set is the test set.
    test = dict(
        _annotated(files, annotations) if annotations else _by_class(files, "test")
    )
    for part, found in (("train", train), ("test", test)):
        if not found:
            raise ValueError(f"{files.path} holds no images {part}/<class>/*")
    number = {name: i for i, name in enumerate(sorted(set(train.values())))}
    unknown = sorted(set(test.values()) - number.keys())
    if unknown:
        raise ValueError(
            f"{files.path}: classes of test must be among those of train/: got "
            f"{unknown} besides"
        )
    # The first image decides: grey or colour, and the size of all.
    first = _open(files, next(iter(train)))
    mode = "L" if first.mode in ("1", "L") else "RGB"
    shape = first.height, first.width, len(mode)
    total = (len(train) + len(test)) * math.prod(shape)
    check_fits(f"{files.path}", 2 * total, "take smaller images")
    return {
        "x_train": _decode(files, list(train), shape, mode),
        "y_train": np.array([number[name] for name in train.values()]),
        "x_test": _decode(files, list(test), shape, mode),
        "y_test": np.array([number[name] for name in test.values()]),
    }


def _by_class(files: Files, part: str) -> Iterator[tuple[str, str]]:
    """(file, class) for every image below `part`/<class>/."""
    for name in files.names:
        path = PurePosixPath(name)
        if path.suffix.lower() in _SUFFIXES and part in path.parts[:-2]:
            yield name, path.parts[path.parts.index(part) + 1]


def _annotated(files: Files, annotations: str) -> Iterator[tuple[str, str]]:
    """(file, class) from lines of file name, class and a bounding box."""
    folder = PurePosixPath(annotations).parent / "images"
    for line in files.read(annotations).decode(errors="replace").splitlines():
        words = line.split()
        if len(words) == 1:
            raise ValueError(
                f"{files.path}/{annotations} must have a file and its class in every "
                f"line: got {line!r}"
            )
        if words:
            yield str(folder / words[0]), words[1]


def _open(files: Files, name: str) -> "Image":
    from PIL import Image

    where = f"{files.path}/{name}"
    try:
        image = Image.open(io.BytesIO(files.read(name)))
        pixels = image.height * image.width
        if pixels <= _MOST:
            image.load()
    except Exception as e:  # a damaged image may raise anything
        raise ValueError(f"{where} is no readable image: {e}") from e
    if pixels > _MOST:
        raise ValueError(
            f"{where} must have at most {_MOST:,} pixels: it states "
            f"{image.height} x {image.width}"
        )
    if image.mode not in _BYTES:
        raise ValueError(
            f"{where} must have 8 bits per channel, which are kept as they are: it has "
            f"the mode {image.mode}; convert it first"
        )
    return image


def _decode(
    files: Files, names: list[str], shape: tuple[int, int, int], mode: str
) -> np.ndarray:
    x = np.empty((len(names), *shape), np.uint8)
    for i, name in enumerate(names):
        image = _open(files, name)
        if (image.height, image.width) != shape[:2]:
            raise ValueError(
                f"every image must have {shape[0]} x {shape[1]} pixels, as the first "
                f"has: {name} has {image.height} x {image.width}"
            )
        x[i] = np.asarray(image.convert(mode)).reshape(shape)
    return x
