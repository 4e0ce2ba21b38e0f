"""Clients' rows in files, where more of them are than fit the memory.

One memory-mapped file per leaf; a row has one record in each. Rows have versions: a
record that a checkpoint points to is never written to, the client's next row goes to a
free one. So a checkpoint is a list of records, and a process that is killed at any
moment leaves the rows of both checkpoints that are kept as they were.
"""

import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.memory import gib
from fedjax_mos.types import Row

_PIECE = 2**24  # bytes that are copied at a time


class Versions(NamedTuple):
    """Where every client's row is: in a run's state in place of the rows."""

    now: jax.Array  # [N] records; -1: as at the start
    saved: jax.Array  # [N] the same, when the checkpoint before was written


class RowStore:
    """Rows in `folder` (by default one that goes with the store).

    `first` is the row that every client starts with, leaves [1, ...]; it takes no
    place until the client's row has changed.
    """

    def __init__(self, first: Row, folder: Path | str | None = None) -> None:
        if folder is None:
            folder = tempfile.mkdtemp(prefix="fedjax_mos-rows-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        leaves, self._tree = jax.tree.flatten(first)
        self._first = [np.asarray(leaf)[0] for leaf in leaves]
        self._files = [self.folder / f"{i:05}.rows" for i in range(len(leaves))]
        for file in self._files:
            file.touch()
        # What a process that was killed while a file grew did not reach, is not there.
        self._capacity = min(
            file.stat().st_size // one.nbytes
            for file, one in zip(self._files, self._first, strict=True)
            if one.nbytes
        )
        self._map()
        self._kept: np.ndarray | None = None  # [capacity] what checkpoints point to
        self._free = np.zeros(0, np.int32)

    @property
    def row_bytes(self) -> int:
        """Of one client."""
        return sum(one.nbytes for one in self._first)

    def begin(self, clients: int) -> Versions:
        """Nothing written yet."""
        return Versions(*(jnp.full(clients, -1, jnp.int32) for _ in range(2)))

    def read(self, versions: Versions, ids: np.ndarray, width: int) -> Row:
        """The rows of clients `ids`, leaves [width, ...]; beyond them anything."""
        if self._kept is None:
            self._keep(versions)
        records = np.asarray(versions.now)[ids]

        def leaf(first: np.ndarray, stored: np.ndarray) -> jax.Array:
            out = np.empty((width, *first.shape), first.dtype)
            out[len(ids) :] = first
            if self._capacity:
                # Not by an index, which would be a second copy.
                into = out[: len(ids)]
                np.take(stored, np.maximum(records, 0), axis=0, out=into, mode="clip")
            out[: len(ids)][records < 0] = first
            return jnp.array(out)

        pairs = zip(self._first, self._stored, strict=True)
        rows = jax.tree.unflatten(self._tree, [leaf(*pair) for pair in pairs])
        self._release()
        return rows

    def write(
        self, versions: Versions, ids: np.ndarray, rows: Row, places: np.ndarray
    ) -> Versions:
        """Replace the rows of clients `ids` by those at `places` of `rows`."""
        if self._kept is None:
            self._keep(versions)
        assert self._kept is not None
        now = np.array(versions.now)
        records = now[ids]
        bound = records < 0
        bound[~bound] = self._kept[records[~bound]]
        records[bound] = self._take(int(bound.sum()))
        leaves = jax.tree.leaves(rows)
        for leaf, stored, first in zip(leaves, self._stored, self._first, strict=True):
            values, step = np.asarray(leaf), 1 + _PIECE // (1 + first.nbytes)
            for i in range(0, len(records), step):
                stored[records[i : i + step]] = values[places[i : i + step]]
        self._release()
        now[ids] = records
        return Versions(jnp.asarray(now), versions.saved)

    def flush(self) -> None:
        """Put all rows on the disk, before a checkpoint points to them."""
        for stored in self._stored:
            if isinstance(stored, np.memmap):
                stored.flush()

    def saved(self, versions: Versions) -> Versions:
        """What a run goes on with after a checkpoint of `versions` was written."""
        self._keep(versions)
        return Versions(versions.now, versions.now)

    def _keep(self, versions: Versions) -> None:
        """Let records of two checkpoints alone: the last one's and that before it."""
        kept = np.zeros(self._capacity, bool)
        for records in versions:
            found = np.asarray(records)
            if found.max() >= self._capacity:
                raise ValueError(
                    f"{self.folder} does not hold the rows of the checkpoint: it has "
                    f"{self._capacity:,} records, not {found.max() + 1:,}"
                )
            kept[found[found >= 0]] = True
        self._kept, self._free = kept, np.flatnonzero(~kept).astype(np.int32)

    def _take(self, count: int) -> np.ndarray:
        """So many records that nobody needs."""
        if count > len(self._free):
            self._grow(max(count - len(self._free), self._capacity // 8))
        found, self._free = self._free[:count], self._free[count:]
        return found

    def _grow(self, count: int) -> None:
        before, after = self._capacity, self._capacity + count
        for file, one in zip(self._files, self._first, strict=True):
            if not one.nbytes:
                continue
            try:
                with file.open("r+b") as stream:
                    _reserve(stream.fileno(), before * one.nbytes, count * one.nbytes)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"{self.folder} cannot hold {after:,} rows of "
                    f"{gib(self.row_bytes)} ({error.strerror}): resume with more room",
                ) from error
        self._capacity = after
        self._map()
        assert self._kept is not None
        self._kept = np.pad(self._kept, (0, count))
        new = np.arange(before, after, dtype=np.int32)
        self._free = np.concatenate([self._free, new])

    def _map(self) -> None:
        self._stored = [
            np.memmap(file, one.dtype, "r+", shape=(self._capacity, *one.shape))
            if self._capacity * one.nbytes
            else np.zeros((self._capacity, *one.shape), one.dtype)
            for file, one in zip(self._files, self._first, strict=True)
        ]

    def _release(self) -> None:
        """Let the system have the pages back: they are in its cache."""
        for stored in self._stored:
            if isinstance(stored.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                stored.base.madvise(mmap.MADV_DONTNEED)


def _reserve(file: int, start: int, size: int) -> None:
    """Make a file longer, on the disk: a map of what is not there kills a process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, size)
    else:
        os.ftruncate(file, start + size)
