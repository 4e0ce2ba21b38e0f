"""The result of a sweep: one labelled cube, hyperparameters x seed x round."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedjax_mos.lab import catalog, folders, pictures, summaries
from fedjax_mos.lab.columns import falls, label
from fedjax_mos.lab.files import whole
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.sweeps import cells_text
from fedjax_mos.lab.sweeps.ledger import PLAN, assemble, read_parts, write_parquet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Cube:
    """A tidy frame: one row per configuration, seed and round.

    `configuration` numbers the cells, the columns `axes` say what they are, `diverged`
    marks every row of a run with a loss that was not finite; `seconds` are those of all
    runs in the same piece. Where no metric is said it is the accuracy on validation
    or held-out examples, or the test accuracy of data without either. A cell's numbers
    are those after the last evaluation; one with a diverged run has none.
    """

    frame: "pd.DataFrame"  #: one row per configuration, seed and round
    axes: tuple[str, ...]  #: the columns that say what a configuration is
    complete: bool  #: all runs were run: no interrupt
    experiment: "Experiment | None" = None  #: the one that all lanes vary
    default_target: float | None = None  #: the data set's, if the experiment is gone

    KIND: ClassVar[str] = "sweep"  #: what its folder is called by

    @classmethod
    def read(cls, folder: Path | str) -> "Cube":
        """What a sweep has written to `folder` so far, or what `write` wrote."""
        import pandas as pd

        folder = Path(folder)
        if not (folder / PLAN).exists():
            stored = folders.read_json(folder / folders.CONFIG)
            frame, axes = pd.read_parquet(folder / "cube.parquet"), stored["axes"]
            one = folders.experiment_of(stored)
            return cls(frame, tuple(axes), stored["complete"], one, stored["target"])
        plan, parts = folders.read_json(folder / PLAN), read_parts(folder)
        if not parts:
            raise ValueError(f"{folder} holds no finished piece yet")
        complete = len(parts) == len(plan["pieces"])
        frame, axes = assemble(plan["lanes"], parts), tuple(plan["axes"])
        return cls(frame, axes, complete, folders.experiment_of(plan))

    @property
    def diverged(self) -> bool:
        """Whether no configuration has a number: all have runs that diverged."""
        return bool(self.cells()["mean"].isna().all())

    def cells(self, metric: str | None = None) -> "pd.DataFrame":
        """One row per configuration, best first: mean and std over seeds.

        std is the sample's (NaN for one seed).
        """
        name = self._metric(metric)
        cells = self._last.groupby("configuration").first()[list(self.axes)]
        groups = self._last.groupby("configuration")
        cells["mean"], cells["std"] = groups[name].mean(), groups[name].std()
        cells["seeds"], cells["diverged"] = groups.size(), groups["diverged"].sum()
        cells.loc[cells["diverged"] > 0, ["mean", "std"]] = np.nan
        return cells.sort_values("mean", ascending=falls(name), kind="stable")

    def best(self, metric: str | None = None) -> dict[str, Any]:
        """The first of `cells` whose runs all stayed finite, and the `metric` it is by.

        By default that is a validation metric, and only without any the test's.
        """
        cells = self.cells(metric).dropna(subset="mean")
        if cells.empty:
            raise ValueError("every configuration has a run that diverged")
        best = cells.head(1).to_dict("records")[0] | {"metric": self._metric(metric)}
        return {str(name): value for name, value in best.items()}

    def best_per(
        self, axis: str, target: float | None = None, metric: str | None = None
    ) -> "pd.DataFrame":
        """For every value of an axis, an algorithm say, the best row of `table`.

        Chosen by the validation metric, if there is one, so that the test metric beside
        it is an honest report.
        """
        table = self.table(target, metric)
        return table.groupby(self._axis(axis), sort=False).head(1)

    def rounds_to_target(
        self, target: float, metric: str = "test_accuracy"
    ) -> "pd.DataFrame":
        """One row per configuration: mean and std over the `reached` seeds."""
        runs = self.frame.groupby(["configuration", "seed"])
        rounds = runs[["round", "diverged", self._metric(metric)]].apply(
            summaries.rounds_to_target, target, metric
        )
        groups = rounds.groupby("configuration")
        # A run that does not reach it counts with its rounds, for a bound.
        ran = self._last.set_index(["configuration", "seed"])["round"]
        bounds = rounds.fillna(ran).groupby("configuration")
        out = self.frame.groupby("configuration").first()[list(self.axes)]
        out["rounds_to_target"] = groups.mean()
        out["rounds_std"] = groups.std()
        out["reached"], out["seeds"] = groups.count(), groups.size()
        out["at_least"] = bounds.mean()
        out["rounds"] = ran.groupby("configuration").max()
        return out

    def table(
        self, target: float | None = None, metric: str | None = None
    ) -> "pd.DataFrame":
        """`cells` by name: their metric, the main metric, both with std; targets."""
        chosen, main = self._metric(metric), summaries.main_metric(self.frame)
        cells = self.cells(chosen)
        names = {"mean": chosen, "std": f"{chosen}_std"}
        out = cells[[*self.axes, "mean", "std"]].rename(columns=names)
        if main != chosen:
            other = self.cells(main)
            out[main], out[f"{main}_std"] = other["mean"], other["std"]
        reached = self.rounds_to_target(self._target(target), main)
        out = out.join(cells[["seeds", "diverged"]])
        columns = ["rounds_to_target", "rounds_std", "reached", "at_least"]
        return out.join(reached[columns]).assign(ran=reached["rounds"])

    def printed(
        self,
        target: float | None = None,
        metric: str | None = None,
        top: int | None = None,
        per: str | None = None,
    ) -> Printed:
        """The table as people read it: the `top` cells, or the best `per` axis."""
        chosen, main = self._metric(metric), summaries.main_metric(self.frame)
        whole = self.table(target, metric)
        table = whole if per is None else self.best_per(per, target, metric)
        table = table if top is None else table.head(top)
        wanted = self._target(target)
        rows = [self._row(cell, chosen, main, wanted) for _, cell in table.iterrows()]
        return Printed(rows, (), cells_text.notes(len(table), whole, chosen, per))

    def text(
        self, target: float | None = None, metric: str | None = None, top: int = 10
    ) -> str:
        """The table for a terminal."""
        return self.printed(target, metric, top).text()

    def write(
        self,
        folder: Path | str,
        target: float | None = None,
        metric: str | None = None,
    ) -> None:
        """config.json, cube.parquet, cells.csv, curves.png, of two axes heat_map.png.

        There are no pictures where every configuration diverged.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / "cells.csv") as path:
            self.table(target, metric).to_csv(path)
        if not self.diverged:
            with whole(folder / "curves.png") as path:
                self.curves(metric=metric).savefig(path, dpi=120)
        if not self.diverged and len(self.axes) > 1:
            with whole(folder / "heat_map.png") as path:
                self.heat_map(metric=metric).savefig(path, dpi=120)
        write_parquet(folder / "cube.parquet", self.frame)
        stored = folders.config(self.experiment, self.KIND, **self._about())
        folders.write_json(folder / folders.CONFIG, stored)

    def heat_map(
        self, x: str | None = None, y: str | None = None, metric: str | None = None
    ) -> "Figure":
        """Mean over seeds by two axes, the best over any other; or random points."""
        if len(self.axes) < 2:
            raise ValueError(f"a heat map needs two axes: got {', '.join(self.axes)}")
        x, y = self._axis(x or self.axes[0]), self._axis(y or self.axes[1])
        return pictures.heat_map(self.cells(metric), x, y, self._metric(metric))

    def curves(self, top: int = 5, metric: str | None = None) -> "Figure":
        """Loss and accuracy by round of the best cells; bands over seeds."""
        found = self.cells(metric)
        cells = found.dropna(subset="mean").head(top)
        frames = {
            ", ".join(
                f"{n}={pictures.as_label(cell[n])}" for n in self.axes
            ): self.frame[self.frame["configuration"] == number]
            for number, cell in cells.iterrows()
        }
        by = label(self._metric(metric)).removesuffix(" in %")
        title = f"the best {len(cells)} of {len(found)} configurations by final {by}"
        return pictures.curves(frames, title=title)

    def _about(self) -> dict[str, Any]:
        about = {"axes": list(self.axes), "complete": self.complete}
        return about | {"target": self._target(None)}

    @property
    def _last(self) -> "pd.DataFrame":
        """Every run's last row that was evaluated: one that stopped may have later."""
        main = summaries.main_metric(self.frame)
        known = self.frame[self.frame[main].notna() | self.frame["diverged"]]
        return known.groupby(["configuration", "seed"]).tail(1)

    def _metric(self, name: str | None) -> str:
        if name is None:
            usual = summaries.choosing_metric(self.frame)
            return usual or summaries.main_metric(self.frame)
        if name not in self.frame or name in self.axes:
            known = [n for n in summaries.metrics_of(self.frame) if n not in self.axes]
            raise ValueError(f"metric must be one of {', '.join(known)}: got {name!r}")
        return name

    def _row(
        self, cell: "pd.Series", chosen: str, main: str, target: float
    ) -> dict[str, str]:
        return cells_text.row(cell, self.axes, chosen, main, target)

    def _target(self, target: float | None) -> float:
        if target is not None:
            return summaries.check_target(target, summaries.main_metric(self.frame))
        if self.experiment is not None:
            return self.experiment.dataset_defaults.target
        return self.default_target or catalog.OTHER.target

    def _axis(self, name: str) -> str:
        if name not in self.axes:
            raise ValueError(f"axis must be one of {', '.join(self.axes)}: got {name}")
        return name
