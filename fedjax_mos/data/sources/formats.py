"""Readers of the files people have: IDX, CIFAR batches, npz.

Each returns the arguments of `arrays` by name. No reader runs code from a file.
"""

import io
import math
import pickle
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_mos.data.sources.files import Files, check_unpacked, contents, member

Arrays = dict[str, Any]  # argument of `arrays` -> np.ndarray

_IDX = {
    "x_train": "train-images",
    "y_train": "train-labels",
    "x_test": "t10k-images",
    "y_test": "t10k-labels",
}
_IDX_DTYPES: dict[int, np.dtype] = {
    0x08: np.dtype("u1"),
    0x09: np.dtype("i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
_NPY_HEADERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_PIXELS = 3 * 32 * 32
_OPTIONAL = ("x_valid", "y_valid", "groups")


def read_idx(files: Files) -> Arrays:
    """The four files of MNIST and its relatives, plain or gzip."""
    arrays = {}
    for key, stem in _IDX.items():
        rank = 3 if key.startswith("x") else 1
        # The second spelling is that of a widespread unpacking.
        names = f"{stem}-idx{rank}-ubyte", f"{stem}.idx{rank}-ubyte"
        arrays[key] = parse_idx(contents(files, *names), f"{files.path}/{names[0]}")
    return arrays


def parse_idx(data: bytes, where: str) -> np.ndarray:
    """One array in the IDX format: magic number, sizes, values, all big-endian."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX_DTYPES:
        raise ValueError(f"{where} is no IDX file: it starts with {data[:4]!r}")
    dtype, start = _IDX_DTYPES[data[2]], 4 + 4 * data[3]
    if len(data) < start:
        raise ValueError(
            f"{where} must have a header of {start} bytes: got {len(data)} in all"
        )
    shape = [int(size) for size in np.frombuffer(data[4:start], ">u4")]
    expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(data) != expected:
        raise ValueError(
            f"{where} must have {expected} bytes for shape {shape}: got {len(data)}"
        )
    values = np.frombuffer(data, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def read_cifar10(files: Files) -> Arrays:
    """CIFAR-10's python or binary batches."""
    names = [f"data_batch_{i}" for i in range(1, 6)]
    return _cifar(files, names, "test_batch", b"labels", label_bytes=1)


def read_cifar100(files: Files) -> Arrays:
    """CIFAR-100's python or binary batches, with the 100 fine labels."""
    return _cifar(files, ["train"], "test", b"fine_labels", label_bytes=2)


def _cifar(
    files: Files, train: list[str], test: str, labels: bytes, label_bytes: int
) -> Arrays:
    def read(name: str) -> tuple[np.ndarray, np.ndarray]:
        where = f"{files.path}/{name}"
        if member(files, f"{name}.bin"):
            return _binary(contents(files, f"{name}.bin"), label_bytes, where)
        return _python(contents(files, name), labels, where)

    batches = [read(name) for name in train]
    x_test, y_test = read(test)
    return {
        "x_train": np.concatenate([x for x, _ in batches]),
        "y_train": np.concatenate([y for _, y in batches]),
        "x_test": x_test,
        "y_test": y_test,
    }


def _binary(data: bytes, label_bytes: int, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows of label bytes, the fine one last, and 3072 pixels."""
    row = label_bytes + _PIXELS
    if not data or len(data) % row:
        raise ValueError(
            f"{where}.bin must hold rows of {row} bytes: got {len(data)} bytes"
        )
    rows = np.frombuffer(data, np.uint8).reshape(-1, row)
    return _images(rows[:, label_bytes:]), rows[:, label_bytes - 1].copy()


def _python(data: bytes, labels: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    batch = safe_unpickle(data, where)
    if isinstance(batch, dict):
        # Python 2 wrote bytes as keys; a batch saved again by Python 3 has text.
        batch = {k.encode() if isinstance(k, str) else k: v for k, v in batch.items()}
    if not isinstance(batch, dict) or not {b"data", labels} <= batch.keys():
        raise ValueError(f"{where} must be a dict with keys data, {labels.decode()}")
    pixels = batch[b"data"]
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.shape[1:] != (_PIXELS,)
    ):
        raise ValueError(f"{where}: data must be uint8 of shape [n, {_PIXELS}]")
    return _images(pixels), np.asarray(batch[labels])


def _images(rows: np.ndarray) -> np.ndarray:
    """Channel planes to NHWC."""
    planes = rows.reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


def safe_unpickle(data: bytes, where: str) -> Any:
    """Unpickle arrays, numbers, text and containers; refuse everything else."""
    try:
        return _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
    except Exception as e:  # a hostile or damaged pickle may raise anything
        raise ValueError(f"{where} cannot be read as a batch of arrays: {e}") from e


def _encode(text: str, codec: str = "latin1") -> bytes:
    if codec != "latin1":
        raise pickle.UnpicklingError(f"refused the codec {codec!r}")
    return text.encode(codec)


def _allowed() -> dict[str, Callable[..., Any]]:
    """What pickled arrays refer to, by every name NumPy has given it."""
    empty = np.zeros(1)
    reconstruct: Any = empty.__reduce__()[0]
    from_buffer: Any = empty.__reduce_ex__(5)[0]
    return {
        "numpy.ndarray": np.ndarray,
        "numpy.dtype": np.dtype,
        "numpy.core.multiarray._reconstruct": reconstruct,
        "numpy._core.multiarray._reconstruct": reconstruct,
        "numpy.core.numeric._frombuffer": from_buffer,
        "numpy._core.numeric._frombuffer": from_buffer,
        "_codecs.encode": _encode,
    }


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _allowed().get(f"{module}.{name}")
        if found is None:
            raise pickle.UnpicklingError(
                f"refused {module}.{name}: only NumPy arrays are allowed"
            )
        return found


def read_npz(path: Path) -> Arrays:
    """An npz with x_train, y_train, x_test, y_test and perhaps x_valid, groups."""
    if not path.is_file():
        raise FileNotFoundError(f"dataset must be a file that exists: no file {path}")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no zip archive")
        check_npz(path, (*_IDX, *_OPTIONAL))
        with np.load(path, allow_pickle=False) as stored:
            missing = [key for key in _IDX if key not in stored]
            if missing:
                raise ValueError(f"keys {missing} are missing; it has {list(stored)}")
            return {k: stored[k] for k in (*_IDX, *_OPTIONAL) if k in stored}
    # A damaged archive may raise anything, of NotImplementedError for a compression
    # that does not exist to SyntaxError for a header.
    except Exception as e:
        raise ValueError(f"{path} is not usable as an npz: {e}") from e


def keys_of(path: Path) -> set[str]:
    """The names of the arrays in an npz file; none where it is no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return set()  # who reads it says what is wrong


def check_npz(path: Path, keys: Iterable[str]) -> None:
    """Refuse arrays that are larger than their files, or than the machine allows."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(sum(i.file_size for i in archive.infolist()), "it")
        wanted = {f"{key}.npy" for key in keys}
        for info in archive.infolist():
            if info.filename not in wanted:
                continue
            with archive.open(info) as file:
                version = np.lib.format.read_magic(file)
                header = _NPY_HEADERS.get(version)
                if header is None:
                    raise ValueError(f"{info.filename} has the npy version {version}")
                shape, _, dtype = header(file)
            if dtype.hasobject:
                raise ValueError(f"{info.filename} holds objects, which are not read")
            stated = math.prod(shape) * dtype.itemsize
            if stated > info.file_size:
                raise ValueError(
                    f"{info.filename} states the shape {shape} of {dtype}, {stated} "
                    f"bytes, and has {info.file_size}"
                )
