"""Runs that outlive their process: state and history on disk, between blocks.

A folder holds one folder per checkpoint, named after its round, each written under
another name and renamed, so that one that exists is whole. A list of hashes in it tells
a damaged one, which is put aside, and the one before it is then used; two are kept.
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
from fedjax_mos.engine.stored_state import read_state, save_state, shapes_of
from fedjax_mos.processes import is_first, of_all, readable
from fedjax_mos.types import PyTree

EVERY = 60.0  # seconds between checkpoints
FORMAT = 2
_KEPT = 2
_HASHES, _ABOUT, _HISTORY, _STATE = "hashes.json", "about.json", "history.npz", "state"


class Checkpoints:
    """Saves a run to `folder` and finds it there again.

    `about` says what is run, as JSON: a checkpoint of anything else is refused, where
    one that lacks an entry means what `unsaid` has for it. The first is written `every`
    seconds after the start, or when the run is interrupted.
    """

    def __init__(
        self,
        folder: Path | str,
        about: Mapping[str, Any] | None = None,
        every: float = EVERY,
        layout: str = "",
        unsaid: Mapping[str, Any] | None = None,
    ) -> None:
        # orbax wants absolute paths.
        self.folder = Path(folder).absolute()
        self.about = json.loads(json.dumps(about or {}, default=str))
        self.every, self.layout, self.unsaid = every, layout, unsaid or {}
        self.spoke = time.monotonic()

    def of(self, layout: str, **more: Any) -> "Checkpoints":
        """The same folder, with more that must be the same; a new layout is said."""
        about = self.about | more
        return Checkpoints(self.folder, about, self.every, layout, self.unsaid)

    def wanted(self, interrupted: bool, ended: bool) -> bool:
        """Whether to write one now: it is time, or the run ends (not if it was short).

        A run that ends before the first checkpoint can be repeated in that time.
        """
        late = time.monotonic() - self.spoke >= self.every
        return any(of_all(late or interrupted or (ended and bool(self._all()))))

    def save(
        self,
        round: int,
        state: PyTree,
        history: Mapping[str, np.ndarray],
        metrics: list[str],
    ) -> bool:
        """Keep this moment, if that can be; older ones go. A full disk is not fatal."""
        state = jax.tree.map(readable, state)
        if not is_first():
            self.spoke = time.monotonic()
            return True
        path, partial = self._path(round), self.folder / f".{round:08}.partial"
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            save_state(partial / _STATE, state)
            cells = {n: _packed(v) for n, v in history.items()}
            np.savez(partial / _HISTORY, allow_pickle=False, **cells)
            about = {
                "format": FORMAT,
                "made": self._made(),
                "round": round,
                "metrics": metrics,
                "state": shapes_of(state),
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
            others = [old for old in self._all() if old != path]
            for old in others[: 1 - _KEPT]:
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
                _put_aside(path)
                continue
            stored = json.loads((path / _ABOUT).read_text())
            self._check(path, stored, like)
            with np.load(path / _HISTORY, allow_pickle=False) as file:
                history = {name: as_cells(file[name]) for name in file.files}
            return read_state(path / _STATE, like), history, stored["metrics"]
        return None

    def newest(self) -> Path | None:
        """The latest one that is whole, if there is any."""
        return next(filter(_is_whole, reversed(self._all())), None)

    def shapes(self) -> dict[str, str]:
        """What the state of the latest one has; empty where there is none."""
        path = self.newest()
        return {} if path is None else json.loads((path / _ABOUT).read_text())["state"]

    def _made(self) -> dict[str, Any]:
        """What last digits depend on: another one is said, and does not matter else."""
        return {
            "version": __version__,
            "jax": jax.__version__,
            "platform": jax.default_backend(),
            "number of devices": jax.device_count(),
            "layout": self.layout,
        }

    def _check(self, path: Path, stored: dict[str, Any], like: PyTree) -> None:
        if stored["format"] != FORMAT:
            raise ValueError(
                f"{path} has the format {stored['format']}, this version reads {FORMAT}"
            )
        if different := differences({**self.unsaid, **stored["about"]}, self.about):
            raise ValueError(f"{path} is of another run: {different}")
        if different := differences(stored["state"], shapes_of(like)):
            raise ValueError(f"{path} has a state of other shapes: {different}")
        for name, now in self._made().items():
            if stored["made"].get(name) != now:
                print(
                    f"{path} was written with another {name}, "
                    f"{stored['made'].get(name)} (now {now}): numbers may differ in "
                    "their last digits",
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


def _put_aside(path: Path) -> None:
    """Out of the way of others; a folder that cannot be written stays as it is."""
    aside = path.with_name(f"{path.name}.damaged")
    with contextlib.suppress(OSError):
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)


def _is_whole(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return json.loads((path / _HASHES).read_text()) == _hashes(path)
    return False
