"""Folders of image files: Tiny ImageNet's layout and the usual one.

    train/<class>/images/*.JPEG, val/images/*.JPEG, val/val_annotations.txt
    train/<class>/*.png, test/<class>/*.png

Classes are numbered in the order of their sorted folder names.
"""

import io
from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np

from fedjax_mos.data.files import Files, member
from fedjax_mos.data.formats import Arrays

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
    shape, mode = _first(files, next(iter(train)))
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


def _first(files: Files, name: str) -> tuple[tuple[int, int, int], str]:
    from PIL import Image

    with Image.open(io.BytesIO(files.read(name))) as image:
        mode = "L" if image.mode in ("1", "L") else "RGB"
        return (image.height, image.width, len(mode)), mode


def _decode(
    files: Files, names: list[str], shape: tuple[int, int, int], mode: str
) -> np.ndarray:
    from PIL import Image

    x = np.empty((len(names), *shape), np.uint8)
    for i, name in enumerate(names):
        try:
            with Image.open(io.BytesIO(files.read(name))) as image:
                pixels = np.asarray(image.convert(mode)).reshape(
                    image.height, image.width, -1
                )
        except (OSError, KeyError) as e:
            raise ValueError(f"{files.path}/{name} is no readable image: {e}") from e
        if pixels.shape != shape:
            raise ValueError(
                f"every image must have shape {shape}, that of the first: "
                f"{name} has {pixels.shape}"
            )
        x[i] = pixels
    return x
