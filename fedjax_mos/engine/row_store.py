"""Clients' rows in files, where more of them are than fit the memory.

One file per leaf; a row has one record in each. Rows have versions: a record that a
checkpoint points to is never written to, the client's next row goes to a free one. So a
checkpoint is a list of records, and a process that is killed at any moment leaves the
rows of both checkpoints that are kept as they were.
"""

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.engine.checkpoints import differences
from fedjax_mos.engine.records import Records
from fedjax_mos.folder_lock import refused
from fedjax_mos.memory import gib
from fedjax_mos.types import Row

FORMAT = 1
_FORMAT = "format.json"  # what it is of, beside the records


class Versions(NamedTuple):
    """Where every client's row is: in a run's state in place of the rows."""

    now: jax.Array  # [N] records; -1: as at the start
    saved: jax.Array  # [N] the same, when the checkpoint before was written


def are_versions(shapes: Mapping[str, str]) -> bool:
    """Whether a state of these shapes (`Checkpoints.shapes`) has its rows in files."""
    return all(f".clients.{name}" in shapes for name in Versions._fields)


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
        # None for a leaf without numbers.
        self._records = [
            Records(self.folder / f"{i:05}.records", one) if one.nbytes else None
            for i, one in enumerate(self._first)
        ]
        _check_format(self.folder / _FORMAT, list(self._some()))
        # What a process that was killed while a file grew did not reach, is not there.
        self._capacity = min(records.count for records in self._some())
        self._kept: np.ndarray | None = None  # [capacity] what checkpoints point to
        self._free = np.zeros(0, np.int32)
        self._buffers: dict[int, np.ndarray] = {}  # what is read: memory used again

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
        numbers = np.asarray(versions.now)[ids]
        there = np.flatnonzero(numbers >= 0)

        def leaf(i: int) -> jax.Array:
            first, records, out = self._first[i], self._records[i], self._buffers.get(i)
            if out is None or len(out) != width:
                out = self._buffers[i] = np.empty((width, *first.shape), first.dtype)
            out[len(ids) :] = first
            out[: len(ids)][numbers < 0] = first
            if records is not None:
                records.read(numbers[there], out, there)
            return jnp.array(out)

        return jax.tree.unflatten(self._tree, map(leaf, range(len(self._first))))

    def write(
        self, versions: Versions, ids: np.ndarray, rows: Row, places: np.ndarray
    ) -> Versions:
        """Replace the rows of clients `ids` by those at `places` of `rows`."""
        if self._kept is None:
            self._keep(versions)
        assert self._kept is not None
        now = np.array(versions.now)
        numbers = now[ids]
        bound = numbers < 0
        bound[~bound] = self._kept[numbers[~bound]]
        numbers[bound] = self._take(int(bound.sum()))
        for leaf, records in zip(jax.tree.leaves(rows), self._records, strict=True):
            if records is None:
                continue
            for start, part in _parts(leaf):
                here = (places >= start) & (places < start + len(part))
                chosen = [part[place - start] for place in places[here]]
                records.write(numbers[here], chosen)
        now[ids] = numbers
        return Versions(jnp.asarray(now), versions.saved)

    def flush(self) -> None:
        """Put all rows on the disk, before a checkpoint points to them."""
        for records in self._some():
            records.flush()

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
        try:
            for records in self._some():
                records.grow_to(after)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{self.folder} cannot hold {after:,} rows of {gib(self.row_bytes)} "
                f"({error.strerror}): resume with more room",
            ) from error
        self._capacity = after
        assert self._kept is not None
        self._kept = np.pad(self._kept, (0, count))
        new = np.arange(before, after, dtype=np.int32)
        self._free = np.concatenate([self._free, new])

    def _some(self) -> list[Records]:
        return [records for records in self._records if records is not None]


def _check_format(path: Path, records: list[Records]) -> None:
    """Refuse rows that another version wrote in another way, or those of other leaves.

    Where nothing is said, they are as this version writes them.
    """
    mine = {
        "format": FORMAT,
        "bytes of a record": [one.size for one in records],
        "bytes between records": [one.stride for one in records],
    }
    if path.exists():
        try:
            stored = json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is damaged ({error})") from error
        if different := differences(stored, mine):
            raise ValueError(
                f"{path.parent} holds clients' rows in another form: {different}. Take "
                "another folder, or the version of fedjax_mos that wrote it"
            )
        return
    with refused(path.parent):
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(mine, indent=2))
        os.replace(partial, path)


def _parts(leaf: jax.Array) -> Iterator[tuple[int, np.ndarray]]:
    """The first axis in the parts that devices have: where each begins, and it."""
    for shard in leaf.addressable_shards:
        if shard.replica_id == 0:
            yield shard.index[0].start or 0, np.asarray(shard.data)
