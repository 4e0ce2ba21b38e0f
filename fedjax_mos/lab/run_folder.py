"""Folders that runs are written to: claimed at the start, resumed, never mixed up."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.engine.checkpoints import Checkpoints, differences
from fedjax_mos.engine.endings import Stop
from fedjax_mos.folder_lock import LOCK, refused
from fedjax_mos.lab import folders
from fedjax_mos.lab.earlier import DEFAULTS
from fedjax_mos.lab.files import PARTIAL, attempt
from fedjax_mos.lab.result import Result
from fedjax_mos.lab.setting_checks import check_count
from fedjax_mos.lab.stopping import deciding

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

WORDS = ".command.json"  # what a folder may hold, beside its lock, when it is claimed
# A resumed run may have more rounds, and its data elsewhere: they are known by a hash.
_FREE = ("rounds", "data_dir")


@contextmanager
def given_back(folder: Path) -> Iterator[None]:
    """Let a folder that was empty be so again, where nothing could be run.

    Rounds that were run are never given away.
    """
    fresh = is_empty(folder)
    try:
        yield
    except (ValueError, RuntimeError, MemoryError):  # refused, or too much to compute
        ran = [*folder.rglob("checkpoints"), *folder.rglob("history.csv")]
        if fresh and not ran:
            for path in (p for p in folder.iterdir() if p.name not in (LOCK, WORDS)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        raise


def is_empty(folder: Path) -> bool:
    """Whether a folder holds no results: only its lock, words, what was never whole."""
    names = [path.name for path in folder.iterdir()]
    return all(name in (LOCK, WORDS) or name.startswith(PARTIAL) for name in names)


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
        stop: Stop | None = None,
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
            stop=folders.as_json(deciding(stop)),
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
        asked_for = known["experiment"]["rounds"] if known else 0
        if experiment.rounds < asked_for:
            raise ValueError(
                f"rounds can only be raised: {folder} has {asked_for}, got "
                f"{experiment.rounds}"
            )
        complete = known is not None and known["complete"]
        self.done = complete and asked_for == experiment.rounds
        self.resumed = _resumed(known or {}, self.stored)
        if known and not self.done:
            # What is there stays readable, as a run that was ended.
            with refused(folder):
                stored = known | self.stored | self.resumed
                folders.write_json(folder / folders.CONFIG, stored)

    def checkpoints(self, every: float) -> Checkpoints:
        """Where the state is kept, every so many seconds."""
        return Checkpoints(
            self.folder / "checkpoints", _fixed(self.stored), every, unsaid=DEFAULTS
        )

    def read(self, said: bool) -> Result:
        """The result of a run that is done, and perhaps a line that says so."""
        if said:
            print(f"{self.folder} is finished: nothing was run", file=sys.stderr)
        found = folders.read(self.folder)
        assert isinstance(found, Result)
        return found

    def write(self, result: Result, target: float | None, picture: bool) -> None:
        """Keep the result; where that fails, say so."""

        def write() -> None:
            result.write(self.folder, target, picture=picture, more=self.resumed)

        attempt(write, self.folder)

    def _known(self) -> dict[str, Any] | None:
        """What the folder says of itself; None if it is empty."""
        if is_empty(self.folder):
            return None
        try:
            found = folders.read_json(self.folder / folders.CONFIG)
            _fixed(found), found["complete"], _resumed(found, self.stored)
            check_count("rounds", found["experiment"]["rounds"])
        except folders.DAMAGED:
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
        own = ", ".join([*stored["own"], *(["stop"] if stored.get("stop") else [])])
    except folders.DAMAGED as error:
        raise ValueError(
            f"config must be the config.json of a run: {path} is not ({error})"
        ) from error
    if experiment is None or own:
        raise ValueError(
            f"{path} tells of objects given in Python ({own}): "
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


def _resumed(known: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What a result does not know: who stops it, and the versions that it began with.

    Others are those that it was resumed with.
    """
    first = known.get("versions", now["versions"])
    others = [*known.get("resumed_with", [])]
    if now["versions"] not in (first, *others):
        others.append(now["versions"])
    said = {"versions": first, "stop": now["stop"]}
    return said | ({"resumed_with": others} if others else {})


def asked(stored: dict[str, Any]) -> dict[str, Any]:
    """What a configuration asks for, but for rounds and where the data are."""
    fields = {n: v for n, v in stored["experiment"].items() if n not in _FREE}
    return DEFAULTS | fields | {"options": stored["options"]}


def asked_by(experiment: "Experiment") -> dict[str, Any]:
    """The same of an experiment, as a file gives it back."""
    stored = json.dumps(folders.config(experiment, "run"), default=str)
    return asked(json.loads(stored))


def _fixed(stored: dict[str, Any]) -> dict[str, Any]:
    """What must be the same for a run to be resumed."""
    more = {n: stored[n] for n in ("seeds", "data")}
    return asked(stored) | more | {"stop": stored.get("stop")}
