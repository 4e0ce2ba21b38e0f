"""Folders that runs are written to: claimed at the start, resumed, never mixed up."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from fedjax_mos.engine.checkpoints import Checkpoints, differences
from fedjax_mos.lab import folders
from fedjax_mos.lab.files import PARTIAL
from fedjax_mos.lab.setting_checks import check_count

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

_LOCK, WORDS = ".lock", ".command.json"  # what a folder may hold before it is claimed
_FREE = ("rounds",)  # of which a resumed run may have more


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make `folder`, and keep other processes from writing to it meanwhile."""
    with refused(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                "out must be a folder that no other process writes to: "
                f"{folder} is in use"
            ) from None
    try:
        yield
    finally:
        lock.release()  # the file stays: another process may be waiting for it


@contextmanager
def given_back(folder: Path) -> Iterator[None]:
    """Let a folder that was empty be so again, where what is to be run is refused.

    Rounds that were run are never given away.
    """
    fresh = is_empty(folder)
    try:
        yield
    except ValueError:
        ran = [*folder.rglob("checkpoints"), *folder.rglob("history.csv")]
        if fresh and not ran:
            for path in (p for p in folder.iterdir() if p.name not in (_LOCK, WORDS)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


@contextmanager
def refused(folder: Path) -> Iterator[None]:
    """An error of the operating system, in the terms of the argument `out`."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"out must be a folder that can be written: {folder} cannot ({error})"
        ) from error


def is_empty(folder: Path) -> bool:
    """Whether a folder holds no results: only its lock, words, what was never whole."""
    names = [path.name for path in folder.iterdir()]
    return all(name in (_LOCK, WORDS) or name.startswith(PARTIAL) for name in names)


class RunFolder:
    """A run's folder: what was asked for, checkpoints, and in the end the result.

    It is made when the run begins, and one of another run is refused.
    """

    def __init__(
        self,
        folder: Path,
        experiment: "Experiment",
        seeds: int | None,
        target: float | None = None,
    ) -> None:
        self.folder = folder
        data = folders.data_hash(experiment)
        stored = folders.config(
            experiment,
            "run",
            seeds=seeds,
            complete=False,
            data=data,
            asked_target=target,
        )
        self.stored = json.loads(json.dumps(stored, default=str))
        known = self._known()
        if known is None:
            with refused(folder):
                folders.write_json(folder / folders.CONFIG, self.stored)
        elif different := differences(_fixed(known), _fixed(self.stored)):
            raise ValueError(
                f"out must be a new folder or one of the same run: in {folder} "
                f"{different}"
            )
        ran = known["experiment"]["rounds"] if known and known["complete"] else 0
        if experiment.rounds < ran:
            raise ValueError(
                f"rounds must be at least {ran}, as {folder} has: got "
                f"{experiment.rounds}"
            )
        self.done = ran == experiment.rounds
        if known and known["experiment"]["rounds"] != experiment.rounds:
            # What is there stays readable, as a run that was ended.
            with refused(folder):
                folders.write_json(folder / folders.CONFIG, known | self.stored)

    def checkpoints(self, every: float) -> Checkpoints:
        """Where the state is kept, every so many seconds."""
        return Checkpoints(self.folder / "checkpoints", _fixed(self.stored), every)

    def _known(self) -> dict[str, Any] | None:
        """What the folder says of itself; None if it is empty."""
        if is_empty(self.folder):
            return None
        try:
            found = folders.read_json(self.folder / folders.CONFIG)
            _fixed(found), found["complete"]
        except (OSError, KeyError, TypeError, ValueError):
            raise FileExistsError(
                f"out must be a new or empty folder, or one of the same run: "
                f"{self.folder} is not"
            ) from None
        return found


def repeated(path: Path) -> "tuple[Experiment, int | None, str | None]":
    """The experiment, number of seeds and hash of the data of a run's config.json."""
    try:
        stored = folders.read_json(path)
        experiment, seeds = folders.experiment_of(stored), stored["seeds"]
        data = stored.get("data")
        if seeds is not None:
            check_count("seeds", seeds)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"config must be the config.json of a run: {path} is not ({error})"
        ) from error
    if experiment is None:
        raise ValueError(
            f"{path} tells of objects given in Python ({', '.join(stored['own'])}): "
            "resume there, with the same call"
        )
    return experiment, seeds, data


def check_data(path: Path, experiment: "Experiment", before: str | None) -> None:
    """Raise a ValueError where an experiment's data have changed since it ran."""
    now = folders.data_hash(experiment)
    if before not in (None, now):
        raise ValueError(
            f"config must be of the same data: {experiment.dataset_name} had the hash "
            f"{before} when {path} was written, and has {now}"
        )


def asked(stored: dict[str, Any]) -> dict[str, Any]:
    """What a configuration asks for, but for the number of rounds."""
    fields = {n: v for n, v in stored["experiment"].items() if n not in _FREE}
    return fields | {"options": stored["options"]}


def asked_by(experiment: "Experiment") -> dict[str, Any]:
    """The same of an experiment, as a file gives it back."""
    stored = json.dumps(folders.config(experiment, "run"), default=str)
    return asked(json.loads(stored))


def _fixed(stored: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    return asked(stored) | {n: stored[n] for n in ("seeds", "data")}
