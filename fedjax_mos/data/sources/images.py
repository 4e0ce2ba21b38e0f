"""Folders of image files: Tiny ImageNet's layout and the usual one.

    train/<class>/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt
    train/<class>/*.png, test/<class>/*.png

Classes are numbered in the order of their sorted folder names.
"""

import io
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.data.sources.files import Files, member
from fedjax_mos.data.sources.formats import Arrays

if TYPE_CHECKING:
    from PIL.Image import Image

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
        raise ValueError(f"{files.path}: test classes {unknown} are not in train/")
    # The first image decides: grey or colour, and the size of all.
    first = _open(files, next(iter(train)))
    mode = "L" if first.mode in ("1", "L") else "RGB"
    shape = first.height, first.width, len(mode)
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
    for line in files.read(annotations).decode().splitlines():
        if line.strip():
            name, label = line.split()[:2]
            yield str(folder / name), label


def _open(files: Files, name: str) -> "Image":
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(files.read(name)))
        image.load()
    except (OSError, KeyError) as e:
        raise ValueError(f"{files.path}/{name} is no readable image: {e}") from e
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
