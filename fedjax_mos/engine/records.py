"""Records of one size in a file, read and written past the system's cache of files.

The cache holds a second copy of what is written, in memory that the store is there to
spare, and helps little where a file is larger than memory and every record is as likely
as any other. So large records go to the disk directly where the system can do that;
they then begin and end at whole blocks, and pass through a buffer that does too.
"""

import errno
import io
import mmap
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

_BLOCK = 4096  # bytes that disks read and write at once, or a multiple of it
_LARGE = 2**16  # bytes of a record for which whole blocks are no waste
_ZEROS = 2**20  # bytes at a time, where space is reserved by writing
# What a file system answers that has no such thing, or wants larger blocks for it.
_UNABLE = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


class Records:
    """The records of a file, each as large as `one`; a new file has none."""

    def __init__(self, path: Path, one: np.ndarray) -> None:
        self._path, self.size = path, one.nbytes
        self._direct = one.nbytes >= _LARGE
        blocks = -(-one.nbytes // _BLOCK)
        self.stride = blocks * _BLOCK if self._direct else one.nbytes
        path.touch()
        # Of the system's pages, which begin at blocks.
        self._page = mmap.mmap(-1, max(self.stride, 1))
        self._buffer = np.frombuffer(self._page, np.uint8)

    @property
    def count(self) -> int:
        """How many the file has room for."""
        return self._path.stat().st_size // self.stride

    def read(self, numbers: np.ndarray, into: np.ndarray, places: np.ndarray) -> None:
        """Put records at `places` of the first axis of an array."""

        def read(stream: io.FileIO) -> None:
            for number, place in zip(numbers, places, strict=True):
                stream.seek(int(number) * self.stride)
                if stream.readinto(self._page) != self.stride:
                    raise OSError(f"{self._path} ends before its record {number}")
                _bytes(into[place : place + 1])[:] = self._buffer[: self.size]

        self._in_file(read)

    def write(self, numbers: np.ndarray, rows: Sequence[np.ndarray]) -> None:
        """Replace records by rows."""

        def write(stream: io.FileIO) -> None:
            for number, row in zip(numbers, rows, strict=True):
                self._buffer[: self.size] = _bytes(row)
                stream.seek(int(number) * self.stride)
                if stream.write(self._page) != self.stride:
                    raise OSError(f"{self._path}: record {number} was not written")

        self._in_file(write)

    def grow_to(self, count: int) -> None:
        """Make room for so many, on the disk: a full one is noticed before a row is.

        A file may have it already, whose neighbours had no room when it grew.
        """
        start, end = self.count * self.stride, count * self.stride
        if end <= start:
            return
        with self._path.open("r+b") as stream:
            try:
                os.posix_fallocate(stream.fileno(), start, end - start)
            except (AttributeError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in _UNABLE:
                    raise
                # Only what is written is sure to have a place.
                stream.seek(start)
                for begin in range(start, end, _ZEROS):
                    stream.write(bytes(min(_ZEROS, end - begin)))

    def flush(self) -> None:
        """Put all on the disk."""
        with self._path.open("r+b") as stream:
            os.fsync(stream.fileno())

    def _in_file(self, work: Callable[[io.FileIO], None]) -> None:
        """Do what may be done twice; past the cache, if the file system can do that."""
        try:
            with self._open() as stream:
                work(stream)
        except OSError as error:  # as the file is opened, or when it is first read
            if not self._direct or error.errno not in _UNABLE:
                raise
            self._direct = False
            with self._open() as stream:
                work(stream)

    def _open(self) -> io.FileIO:
        past_the_cache = getattr(os, "O_DIRECT", 0) if self._direct else 0
        return io.FileIO(os.open(self._path, os.O_RDWR | past_the_cache), "r+")


def _bytes(row: np.ndarray) -> np.ndarray:
    """The memory of an array, of whatever type."""
    return row.reshape(-1).view(np.uint8)
