"""What a run leaves."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
from flax import serialization

from fedjax_mos.lab import catalog, folders, pictures, tables
from fedjax_mos.types import Params, RoundState

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.experiment import Experiment

_FIRST = ("seed", "round", "train_loss", "test_loss", "test_accuracy")
_PARAMS = "params.msgpack"


@dataclasses.dataclass(frozen=True)
class Result:
    """One experiment's run; with several seeds, params have a leading seed axis.

    `frame` has one row per round (and seed).
    """

    experiment: "Experiment | None"  # None if it was read and had held objects
    frame: "pd.DataFrame"
    params: Params
    state: RoundState | None = None  # not kept on disk
    title: str = ""
    complete: bool = True  # all rounds were run: no interrupt
    default_target: float | None = None  # the data set's, if the experiment is gone

    @property
    def name(self) -> str:
        """What tables and pictures call it."""
        return self.title or (self.experiment.title if self.experiment else "run")

    def summary(self, target: float | None = None) -> list[dict[str, Any]]:
        """One run in a few numbers, seed by seed."""
        at = self.target(target)
        runs = tables.by_seed(self.frame)
        return [{"seed": s} | tables.summary(rows, at) for s, rows in runs.items()]

    def table(self, target: float | None = None) -> "pd.DataFrame":
        """Mean and spread over seeds."""
        return tables.comparison(
            {self.name: self.frame}, {self.name: self.target(target)}
        )

    def curves(self) -> "Figure":
        """Loss and accuracy by round."""
        return pictures.curves({self.name: self.frame})

    def target(self, target: float | None = None) -> float:
        """The one that is asked for, or what is usual for the data set."""
        if target is not None:
            return tables.check_target(target, tables.main_metric(self.frame))
        if self.experiment is not None:
            return self.experiment.dataset_defaults.target
        return self.default_target or catalog.OTHER.target

    def write(self, folder: Path | str, target: float | None = None) -> None:
        """config.json, history.csv, summary.json, the parameters and curves.png."""
        self.write_data(folder, target)
        self.curves().savefig(Path(folder) / "curves.png", dpi=120)

    def write_data(self, folder: Path | str, target: float | None = None) -> None:
        """All that `write` writes but the picture."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        first = [name for name in _FIRST if name in self.frame]
        others = [name for name in self.frame if name not in first]
        self.frame[[*first, *others]].to_csv(folder / "history.csv", index=False)
        stored = folders.config(
            self.experiment,
            "run",
            seeds=self.frame["seed"].nunique() if "seed" in self.frame else None,
            title=self.name,
            complete=self.complete,
            target=self.target(),
        )
        folders.write_json(folder / folders.CONFIG, stored)
        folders.write_json(folder / "summary.json", self.summary(target))
        params = serialization.to_state_dict(jax.device_get(self.params))
        (folder / _PARAMS).write_bytes(serialization.msgpack_serialize(params))

    @classmethod
    def read(cls, folder: Path | str) -> "Result":
        """What `write` wrote: parameters as nested dictionaries, no state."""
        import pandas as pd

        folder = Path(folder)
        stored = folders.read_json(folder / folders.CONFIG)
        params = serialization.msgpack_restore((folder / _PARAMS).read_bytes())
        frame = pd.read_csv(folder / "history.csv")
        experiment = folders.experiment_of(stored)
        about = {name: stored[name] for name in ("title", "complete")}
        return cls(experiment, frame, params, **about, default_target=stored["target"])
