"""Records of one size in a file, read and written past the system's cache of files.

The cache holds a second copy of what is written, in memory that the store is there to
spare, and helps little where a file is larger than memory and every record is as likely
as any other. So large records go to the disk directly where the system can do that;
they then begin and end at whole blocks, and pass through a buffer that does too.
"""

import io
import mmap
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_BLOCK = 4096  # bytes that disks read and write at once, or a multiple of it
_LARGE = 2**16  # bytes of a record for which whole blocks are no waste


class Records:
    """The records of a file, each as large as `one`; a new file has none."""

    def __init__(self, path: Path, one: np.ndarray) -> None:
        self._path, self._size = path, one.nbytes
        self._direct = one.nbytes >= _LARGE
        blocks = -(-one.nbytes // _BLOCK)
        self._stride = blocks * _BLOCK if self._direct else one.nbytes
        path.touch()
        # Of the system's pages, which begin at blocks.
        self._page = mmap.mmap(-1, max(self._stride, 1))
        self._buffer = np.frombuffer(self._page, np.uint8)

    @property
    def count(self) -> int:
        """How many the file has room for."""
        return self._path.stat().st_size // self._stride

    def read(self, numbers: np.ndarray, into: np.ndarray, places: np.ndarray) -> None:
        """Put records at `places` of the first axis of an array."""
        with self._open() as stream:
            for number, place in zip(numbers, places, strict=True):
                stream.seek(int(number) * self._stride)
                if stream.readinto(self._page) != self._stride:
                    raise OSError(f"{self._path} ends before its record {number}")
                _bytes(into[place : place + 1])[:] = self._buffer[: self._size]

    def write(self, numbers: np.ndarray, rows: Iterable[np.ndarray]) -> None:
        """Replace records by rows."""
        with self._open() as stream:
            for number, row in zip(numbers, rows, strict=True):
                self._buffer[: self._size] = _bytes(row)
                stream.seek(int(number) * self._stride)
                if stream.write(self._page) != self._stride:
                    raise OSError(f"{self._path}: record {number} was not written")

    def grow_to(self, count: int) -> None:
        """Make room for so many, on the disk: a full one is noticed before a row is.

        A file may have it already, whose neighbours had no room when it grew.
        """
        start, size = self.count * self._stride, (count - self.count) * self._stride
        if size <= 0:
            return
        with self._path.open("r+b") as stream:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), start, size)
            else:
                os.ftruncate(stream.fileno(), start + size)

    def flush(self) -> None:
        """Put all on the disk."""
        with self._path.open("r+b") as stream:
            os.fsync(stream.fileno())

    @contextmanager
    def _open(self) -> Iterator[io.FileIO]:
        past_the_cache = getattr(os, "O_DIRECT", 0) if self._direct else 0
        try:
            file = os.open(self._path, os.O_RDWR | past_the_cache)
        except OSError:  # a file system that has no other way
            self._direct = False
            file = os.open(self._path, os.O_RDWR)
        with io.FileIO(file, "r+") as stream:
            yield stream


def _bytes(row: np.ndarray) -> np.ndarray:
    """The memory of an array, of whatever type."""
    return row.reshape(-1).view(np.uint8)
