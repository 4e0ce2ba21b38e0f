"""Folders that runs are written to: claimed at the start, resumed, never mixed up."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from fedjax_mos.engine.checkpoints import Checkpoints, differences
from fedjax_mos.lab import folders

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

_LOCK = ".lock"
_FREE = ("rounds",)  # of which a resumed run may have more


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make `folder`, and keep other processes from writing to it meanwhile."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"out must be a folder that no other process writes to: {folder} is in use"
        ) from None
    except OSError as error:
        raise ValueError(
            f"out must be a folder that can be written: {folder} cannot ({error})"
        ) from error
    try:
        yield
    finally:
        lock.release()  # the file stays: another process may be waiting for it


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but its lock."""
    return not any(path.name != _LOCK for path in folder.iterdir())


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


def repeated(path: Path) -> "tuple[Experiment, int | None]":
    """The experiment, and the number of seeds, that a run's config.json tells of."""
    try:
        stored = folders.read_json(path)
        experiment, seeds = folders.experiment_of(stored), stored["seeds"]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"config must be the config.json of a run: {path} is not ({error})"
        ) from error
    if experiment is None:
        raise ValueError(
            f"{path} tells of objects given in Python ({', '.join(stored['own'])}): "
            "resume there, with the same call"
        )
    return experiment, seeds


def _fixed(stored: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    fields = {n: v for n, v in stored["experiment"].items() if n not in _FREE}
    more = {n: stored[n] for n in ("seeds", "data")}
    return fields | more | {"options": stored["options"]}
