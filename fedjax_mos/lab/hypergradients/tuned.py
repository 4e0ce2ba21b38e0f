"""What tuning by gradient leaves."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedjax_mos.lab import folders, pictures
from fedjax_mos.lab.files import whole
from fedjax_mos.lab.hypergradients.wrt import Named
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.experiment import Experiment


@dataclasses.dataclass(frozen=True)
class Tuned:
    """The best point on the way, and the way: one row of `frame` per update.

    `experiment` has the numbers that were found, `hp` holds them by name. In the frame
    an array stands with its mean, and `cost` counts rounds so far, those of a gradient
    as often as `hypergrad.runs` says.
    """

    experiment: "Experiment | None"  #: None if it was read and had held objects
    hp: Named  #: the numbers that were found, by name
    frame: "pd.DataFrame"  #: one row per update
    objective: str  #: the column that was minimised
    updates: int  #: that were asked for

    KIND: ClassVar[str] = "tuning"  #: what its folder is called by

    @property
    def complete(self) -> bool:
        """Whether all updates were made: no interrupt."""
        return len(self.frame) >= self.updates

    @property
    def best(self) -> float:
        """The lowest objective of the points with a stable horizon."""
        return float(self._stable().min())

    def table(self) -> "pd.DataFrame":
        """The start, what the halving has found, and the best point, side by side."""
        stable = self._stable()
        at: dict[str, Any] = {"start": 0}
        searched = stable[(self.frame["from"] != "gradient").cummin()]
        if len(searched) > 1 and searched.notna().any():
            at["after halving"] = searched.idxmin()
        at["best"] = stable.idxmin()
        rows = self.frame.loc[[*at.values()], [self.objective, *self.hp, "cost"]]
        return rows.set_axis([*at], axis=0)

    def text(self) -> str:
        """The table, and from where to where schedules go."""
        lines = [self.table().to_string(float_format="{:.4g}".format)]
        for name, value in self.hp.items():
            if isinstance(value, Schedule):
                first, *_, last = np.asarray(value.values)
                lines.append(
                    f"{name} is a schedule, shown by its mean: {first:.4g} in the "
                    f"first round, {last:.4g} in the last"
                )
        return "\n".join(lines)

    def trajectory(self, baseline: Cube | None = None) -> "Figure":
        """The best objective so far by cost, and the numbers on their way.

        `baseline` is a sweep to compare with.
        """
        import pandas as pd

        way, found = self.frame, None
        best = pd.Series(self._stable().cummin().ffill().to_numpy(), way["cost"])
        if baseline is not None:
            # As they were drawn.
            cells = baseline.cells(self.objective).sort_index()["mean"]
            one = baseline.frame["round"].max() * baseline.frame["seed"].nunique()
            spent = one * np.arange(1, len(cells) + 1)
            found = pd.Series(cells.cummin().ffill().to_numpy(), spent)
        return pictures.trajectory(way, self.objective, list(self.hp), best, found)

    def write(self, folder: Path | str, baseline: Cube | None = None) -> None:
        """config.json (with the numbers), winner.json, trajectory.csv and .png."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / "trajectory.csv") as path:
            self.frame.to_csv(path, index=False)
        folders.write_winner(folder, self.experiment)
        stored = folders.config(
            self.experiment,
            self.KIND,
            hp=folders.as_json(self.hp),
            objective=self.objective,
            updates=self.updates,
        )
        with whole(folder / "trajectory.png") as path:
            self.trajectory(baseline).savefig(path, dpi=120)
        folders.write_json(folder / folders.CONFIG, stored)

    @classmethod
    def read(cls, folder: Path | str) -> "Tuned":
        """What `write` wrote."""
        import pandas as pd

        stored = folders.read_json(Path(folder) / folders.CONFIG)
        text = {"unstable": str}  # "" is read as a missing number
        frame = pd.read_csv(Path(folder) / "trajectory.csv", dtype=text)
        frame["unstable"] = frame["unstable"].fillna("")
        if "from" not in frame:  # of an earlier version
            frame["from"] = "gradient"
        wanted = {stored["objective"], *stored["hp"], "cost"}
        if missing := sorted(wanted - {*frame}):
            raise ValueError(f"trajectory.csv must have the columns {missing}")
        return cls(
            folders.experiment_of(stored),
            folders.from_json(stored["hp"]),
            frame,
            stored["objective"],
            stored["updates"],
        )

    def _stable(self) -> "pd.Series":
        return self.frame[self.objective].where(self.frame["unstable"] == "")
