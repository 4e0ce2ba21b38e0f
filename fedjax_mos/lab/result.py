"""What a run leaves."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.lab import catalog, folders, summaries
from fedjax_mos.lab.files import digests, whole
from fedjax_mos.lab.showing import Shown
from fedjax_mos.types import Params, PyTree, RoundState

if TYPE_CHECKING:
    import pandas as pd

    from fedjax_mos.lab.experiment import Experiment

_FIRST = ("seed", "round", "train_loss", "test_loss", "test_accuracy")
_CLIENTS, _COHORTS = "clients.csv", "cohorts.parquet"
HISTORY = "history.csv"
_PARAMS = "params.npz"
_FILES = (HISTORY, _PARAMS, _CLIENTS, _COHORTS)


@dataclasses.dataclass(frozen=True)
class Result(Shown):
    """One experiment's run; with several seeds, params have a leading seed axis.

    `frame` has one row per round (and seed), `cohorts` one per round and client that
    took part (with `cohorts=True`), `clients` one per client (with `per_client`).
    """

    experiment: "Experiment | None"  #: None if it was read and had held objects
    frame: "pd.DataFrame"  #: one row per round (and seed)
    params: Params  #: the model after the last round
    state: RoundState | None = None  #: not kept on disk
    title: str = ""  #: what it is called in tables and pictures
    complete: bool = True  #: all rounds were run: no interrupt
    full: bool = False  #: it ended where the disk did not take its clients' rows
    default_target: float | None = None  #: the data set's, if the experiment is gone
    #: one row per round and client that took part
    cohorts: "pd.DataFrame | None" = None
    clients: "pd.DataFrame | None" = None  #: one row per client

    def __repr__(self) -> str:
        """Which run, and how far it came; `text()` says how well."""
        count = self.frame["seed"].nunique() if "seed" in self.frame else None
        seeds = f", {count} seeds" if count else ""
        ended = "" if self.complete else ", interrupted"
        return f"Result({self.name}: {self.frame['round'].max()} rounds{seeds}{ended})"

    @property
    def name(self) -> str:
        """What tables and pictures call it."""
        return self.title or (self.experiment.title if self.experiment else "run")

    @property
    def members(self) -> "dict[str, Result]":
        """This result by its name, as a comparison has several."""
        return {self.name: self}

    @property
    def by_seed(self) -> "pd.DataFrame":
        """The frame, with a column `seed` also where there is one seed only."""
        if "seed" in self.frame or self.experiment is None:
            return self.frame
        return self.frame.assign(seed=self.experiment.seed)

    def apply(self, x: PyTree) -> jax.Array:
        """The trained model's outputs for raw examples; of several seeds, of each."""
        if self.experiment is None:
            raise ValueError("apply needs the experiment, which had held objects")
        apply = self.experiment.build().apply
        if "seed" not in self.frame:
            return apply(self.params, x, None)
        return jax.vmap(lambda params: apply(params, x, None))(self.params)

    def summary(self, target: float | None = None) -> list[dict[str, Any]]:
        """One run in a few numbers, seed by seed."""
        (at,) = self.targets_of(target)
        runs = summaries.by_seed(self.by_seed)
        return [{"seed": s} | summaries.summary(rows, at) for s, rows in runs.items()]

    def targets_of(
        self, target: float | Sequence[float] | None, metric: str | None = None
    ) -> tuple[float, ...]:
        """The targets that are asked for, or what is usual for the data set."""
        name = summaries.check_metric(self.frame, metric)
        if target is None:
            if metric not in (None, summaries.main_metric(self.frame)):
                return ()  # what is usual is so for the main metric
            if self.experiment is not None:
                return (self.experiment.dataset_defaults.target,)
            return (self.default_target or catalog.OTHER.target,)
        wanted = (target,) if isinstance(target, int | float) else tuple(target)
        return tuple(summaries.check_target(t, name) for t in wanted)

    def write(
        self,
        folder: Path | str,
        target: float | None = None,
        *,
        picture: bool = True,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """history.csv, summary.json, the parameters, curves.png and config.json.

        Also clients.csv and cohorts.parquet, where they were kept. config.json comes
        last, with hashes of the others and what `more` there is to say: a folder that
        says it is complete has everything.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        first = [name for name in _FIRST if name in self.frame]
        others = [name for name in self.frame if name not in first]
        with whole(folder / HISTORY) as path:
            self.frame[[*first, *others]].to_csv(path, index=False)
        stored = folders.config(
            self.experiment,
            "run",
            seeds=self.frame["seed"].nunique() if "seed" in self.frame else None,
            title=self.name,
            complete=self.complete,
            target=self.targets_of(None)[0],
            data=folders.data_hash(self.experiment),
            asked_target=target,
        )
        folders.write_json(folder / "summary.json", self._told(folder, target))
        folders.write_arrays(folder / _PARAMS, self.params)
        if self.clients is not None:
            with whole(folder / _CLIENTS) as path:
                self.clients.to_csv(path, index=False)
        if self.cohorts is not None:
            with whole(folder / _COHORTS) as path:
                self.cohorts.to_parquet(path, index=False)
        if picture:
            with whole(folder / "curves.png") as path:
                self.curves().savefig(path, dpi=120)
        stored["files"] = digests(folder / name for name in _FILES)
        folders.write_json(folder / folders.CONFIG, stored | dict(more or {}))

    def _told(self, folder: Path, target: float | None) -> list[dict[str, Any]]:
        """The summary; of seeds that diverged also why, probably, and what is left."""
        good = Checkpoints(folder / "checkpoints").newest()
        lost = {
            "likely_cause": likely_cause(self.experiment),
            "last_good_checkpoint": good and str(good.relative_to(folder.absolute())),
        }
        return [
            one | (lost if one["diverged_at"] is not None else {})
            for one in self.summary(target)
        ]

    def write_orbax(self, folder: Path | str) -> None:
        """The parameters as an orbax checkpoint, for programs that read those."""
        import orbax.checkpoint as ocp

        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(Path(folder).absolute(), self.params)

    @classmethod
    def read(cls, folder: Path | str) -> "Result":
        """What `write` wrote: parameters as nested dictionaries, no state."""
        import pandas as pd

        folder = Path(folder)
        stored = folders.read_json(folder / folders.CONFIG)
        if stored["complete"]:  # else the next ones may be half written
            _check_files(folder, stored.get("files", {}))
        params = folders.read_arrays(folder / _PARAMS)
        frame = pd.read_csv(folder / HISTORY)
        check_history(frame, folder / HISTORY)
        clients, cohorts = folder / _CLIENTS, folder / _COHORTS
        return cls(
            folders.experiment_of(stored),
            frame,
            params,
            title=stored["title"],
            complete=stored["complete"],
            default_target=stored["target"],
            cohorts=pd.read_parquet(cohorts) if cohorts.exists() else None,
            clients=pd.read_csv(clients) if clients.exists() else None,
        )


def likely_cause(experiment: "Experiment | None") -> str:
    """Of a loss that is no finite number."""
    parts = {} if experiment is None else experiment.parts
    rates = [
        f"{name} = {value}"
        for part in parts.values()
        for name, value in part.spec.hp.items()
        if name.endswith("lr") and np.ndim(value) == 0
    ]
    return f"step sizes that are too large ({', '.join(rates) or 'of your own'})"


def _check_files(folder: Path, written: Mapping[str, str]) -> None:
    """Raise a ValueError for files that are not those that were written."""
    found = digests(folder / name for name in written)
    for name, digest in written.items():
        if name not in found:
            raise ValueError(f"{folder / name} is missing")
        if found[name] != digest:
            raise ValueError(f"{folder / name} is damaged: it was changed or cut")


def check_history(frame: "pd.DataFrame", path: Path) -> None:
    """Raise a ValueError for what `write` cannot have written."""
    whole = ("round", "bits_up", "bits_down", *({"seed"} & {*frame}))
    if missing := [
        name for name in (*whole, "seconds", "diverged") if name not in frame
    ]:
        raise ValueError(f"{path} must have the columns {', '.join(missing)}")
    for name in whole:
        if frame[name].dtype.kind not in "ui" or not len(frame):
            raise ValueError(f"{path} must have whole numbers in the column {name}")
    if not {True, False}.issuperset(frame["diverged"]):
        raise ValueError(f"{path} must have true or false in the column diverged")
