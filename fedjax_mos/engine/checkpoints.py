"""Runs that outlive their process: state and history on disk, between blocks.

A folder holds one folder per checkpoint, named after its round, each written under
another name and renamed, so that one that exists is whole. A list of hashes in it tells
a damaged one, and the one before it is then used; two are kept.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_mos._version import __version__
from fedjax_mos.engine.history import as_cells
from fedjax_mos.types import PyTree

EVERY = 60.0  # seconds between checkpoints
FORMAT = 1
_KEPT = 2
_HASHES, _ABOUT, _HISTORY, _STATE = "hashes.json", "about.json", "history.npz", "state"


class Checkpoints:
    """Saves a run to `folder` and finds it there again.

    `about` says what is run, as JSON: a checkpoint of anything else is refused. The
    first is written `every` seconds after the start, or when the run is interrupted.
    """

    def __init__(
        self,
        folder: Path | str,
        about: Mapping[str, Any] | None = None,
        every: float = EVERY,
    ) -> None:
        # orbax wants absolute paths.
        self.folder = Path(folder).absolute()
        self.about = json.loads(json.dumps(about or {}, default=str))
        self.every = every
        self.spoke = time.monotonic()

    def of(self, **more: Any) -> "Checkpoints":
        """The same folder, with more that must be the same."""
        return Checkpoints(self.folder, self.about | more, self.every)

    def wanted(self, interrupted: bool, ended: bool) -> bool:
        """Whether to write one now: it is time, or the run ends (not if it was short).

        A run that ends before the first checkpoint can be repeated in that time.
        """
        late = time.monotonic() - self.spoke >= self.every
        return late or interrupted or (ended and bool(self._all()))

    def save(
        self,
        round: int,
        state: PyTree,
        history: Mapping[str, np.ndarray],
        metrics: list[str],
    ) -> bool:
        """Keep this moment, if that can be; older ones go. A full disk is not fatal."""
        path, partial = self._path(round), self.folder / f".{round:08}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _save_state(partial / _STATE, state)
            cells = {n: _packed(v) for n, v in history.items()}
            np.savez(partial / _HISTORY, allow_pickle=False, **cells)
            about = {
                "format": FORMAT,
                "version": __version__,
                "jax": jax.__version__,
                "round": round,
                "metrics": metrics,
                "about": self.about,
            }
            (partial / _ABOUT).write_text(json.dumps(about, indent=2))
            (partial / _HASHES).write_text(json.dumps(_hashes(partial, True), indent=2))
            shutil.rmtree(path, ignore_errors=True)
            os.replace(partial, path)
        except Exception as error:  # what orbax makes of a full disk is no OSError
            print(f"no checkpoint of round {round}: {error}", file=sys.stderr)
            shutil.rmtree(partial, ignore_errors=True)
            written = False
        else:
            for old in self._all()[:-_KEPT]:
                shutil.rmtree(old, ignore_errors=True)
            written = True
        self.spoke = time.monotonic()
        return written

    def latest(
        self, like: PyTree
    ) -> tuple[PyTree, dict[str, np.ndarray], list[str]] | None:
        """State (shaped `like` this one), history and its metrics; None if none is."""
        for path in reversed(self._all()):
            if not _is_whole(path):
                print(f"{path} is damaged: the one before is used", file=sys.stderr)
                continue
            stored = json.loads((path / _ABOUT).read_text())
            self._check(path, stored)
            with np.load(path / _HISTORY, allow_pickle=False) as file:
                history = {name: as_cells(file[name]) for name in file.files}
            return _read_state(path / _STATE, like), history, stored["metrics"]
        return None

    def newest(self) -> Path | None:
        """The latest one, if there is any."""
        return self._all()[-1] if self._all() else None

    def _check(self, path: Path, stored: dict[str, Any]) -> None:
        if stored["format"] != FORMAT:
            raise ValueError(
                f"{path} has the format {stored['format']}, this version reads {FORMAT}"
            )
        if different := differences(stored["about"], self.about):
            raise ValueError(f"{path} is of another run: {different}")
        for name, now in (("version", __version__), ("jax", jax.__version__)):
            if stored[name] != now:
                print(
                    f"{path} was written with another {name}, {stored[name]} (now "
                    f"{now}): numbers may differ in their last digits",
                    file=sys.stderr,
                )

    def _path(self, round: int) -> Path:
        return self.folder / f"{round:08}"

    def _all(self) -> list[Path]:
        """Whole and damaged ones, the latest last."""
        if not self.folder.is_dir():
            return []
        found = (p for p in self.folder.iterdir() if p.is_dir() and p.name.isdigit())
        return sorted(found)


def differences(before: Any, now: Any, name: str = "") -> str:
    """What differs between two configurations, in words; empty: nothing.

    >>> differences({"lr": 0.1, "seed": 0}, {"lr": 0.2, "seed": 0})
    'lr was 0.1 and is 0.2'
    """
    if isinstance(before, dict) and isinstance(now, dict):
        names = dict.fromkeys([*before, *now])
        inner = [
            differences(before.get(n), now.get(n), f"{name}.{n}" if name else str(n))
            for n in names
        ]
        return "; ".join(text for text in inner if text)
    return "" if before == now else f"{name} was {before} and is {now}"


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(
        leaf.dtype, jax.dtypes.prng_key
    )


def _plain(state: PyTree) -> dict[str, Any]:
    """The leaves by number; keys as their data. Empty ones have none to keep."""
    leaves = jax.tree.leaves(state)
    return {
        f"{i:05}": jax.random.key_data(leaf) if _is_key(leaf) else leaf
        for i, leaf in enumerate(leaves)
        if leaf.size
    }


def _save_state(path: Path, state: PyTree) -> None:
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, _plain(state))


def _read_state(path: Path, like: PyTree) -> PyTree:
    """As NumPy arrays, for a backend to place."""
    import orbax.checkpoint as ocp

    with ocp.StandardCheckpointer() as checkpointer:
        whole = jax.tree.map(
            lambda leaf: np.zeros(leaf.shape, leaf.dtype), jax.eval_shape(_plain, like)
        )
        found = checkpointer.restore(path, whole)
    leaves, tree = jax.tree.flatten(like)
    back = [
        jax.random.wrap_key_data(found[f"{i:05}"], impl=jax.random.key_impl(leaf))
        if _is_key(leaf)
        else found.get(f"{i:05}", leaf)
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(tree, back)


def _packed(values: np.ndarray) -> np.ndarray:
    """A column; one whose cells are arrays as one array with more axes."""
    if values.dtype != object:
        return values
    cells = np.stack([cell for cell in values.ravel()])
    return cells.reshape(*values.shape, *cells.shape[1:])


def _hashes(folder: Path, sync: bool = False) -> dict[str, str]:
    """File -> hash of its content, which `sync` makes the system put on the disk."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != _HASHES:
            with path.open("rb") as file:
                if sync:
                    os.fsync(file.fileno())
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = digest
    return found


def _is_whole(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((path / _HASHES).read_text()) == _hashes(path)
    return False
