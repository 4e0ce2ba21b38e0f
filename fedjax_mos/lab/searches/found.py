"""The result of a search: a cube whose runs ended at different rungs."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedjax_mos.lab import folders, pictures
from fedjax_mos.lab.files import whole
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.lab.sweeps.ledger import PLAN, assemble, read_parts, write_parquet
from fedjax_mos.lab.sweeps.members import member

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.experiment import Experiment

RUNGS = "rungs.parquet"
COLUMNS = ["bracket", "rung", "round", "configuration", "value", "survived"]


@dataclasses.dataclass(frozen=True)
class Search(Cube):
    """A cube in which the runs that left at a rung are shorter.

    `rungs` has one row per bracket, rung and configuration that reached it: the
    `value` of `metric` there (mean over seeds; NaN: diverged) and whether it survived.
    `winner` is the best experiment, None if all diverged or its objects are gone.
    Cells are ordered by how far they came, then by their value there.
    """

    #: one row per bracket, rung and configuration that reached it
    rungs: "pd.DataFrame" = dataclasses.field(default=None)  # type: ignore[assignment]
    metric: str = ""  #: by which configurations were ranked
    #: the best experiment; None: all diverged, or its objects are gone
    winner: "Experiment | None" = None

    KIND: ClassVar[str] = "search"  #: what its folder is called by

    def won_by(self, experiment_of: "Callable[[int], Experiment]") -> "Search":
        """With the winner, given the experiment of every configuration."""
        cells = self.cells().dropna(subset="mean")
        if cells.empty:
            return self
        return dataclasses.replace(self, winner=experiment_of(int(cells.index[0])))

    def cells(self, metric: str | None = None) -> "pd.DataFrame":
        """One row per configuration, the winner first: mean and std over seeds.

        Of its last round, `ran`: those that left early are not comparable by it.
        """
        cells = super().cells(metric)
        cells["ran"] = self.frame.groupby("configuration")["round"].max()
        return cells.sort_values("ran", ascending=False, kind="stable")

    def spent(self) -> "pd.Series":
        """Rounds and bits of all runs together, and the rounds that a sweep takes."""
        runs = self.frame.groupby(["configuration", "seed"])
        names = ["round", "bits_up", "bits_down"]
        total = runs.tail(1)[names].sum().rename({"round": "rounds"})
        total["rounds_of_a_sweep"] = runs.ngroups * self.frame["round"].max()
        return total

    def printed(
        self,
        target: float | None = None,
        metric: str | None = None,
        top: int | None = None,
        per: str | None = None,
    ) -> Printed:
        """The table as people read it, and what the rungs were."""
        found = super().printed(target, metric, top, per)
        sizes = self.rungs.groupby(["bracket", "rung"])["round"].agg(["first", "size"])
        text = ", ".join(
            f"{row['size']} to {row['first']}" for _, row in sizes.iterrows()
        )
        spent = self.spent()
        share = spent["rounds"] / spent["rounds_of_a_sweep"]
        notes = [
            f"Configurations to rounds: {text}; {share:.0%} of a sweep's rounds.",
            *found.notes,
        ]
        return found._replace(notes=notes)

    def halving(self) -> "Figure":
        """What every configuration had reached at its rungs, and who went on."""
        return pictures.halving(self.rungs, self.metric)

    def write(
        self,
        folder: Path | str,
        target: float | None = None,
        metric: str | None = None,
    ) -> None:
        """What a cube writes, winner.json, rungs.parquet, rungs.csv, halving.png."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_parquet(folder / RUNGS, self.rungs)
        with whole(folder / "rungs.csv") as path:
            self.rungs.to_csv(path, index=False)
        if self.rungs["value"].notna().any():
            with whole(folder / "halving.png") as path:
                self.halving().savefig(path, dpi=120)
        folders.write_winner(folder, self.winner)
        super().write(folder, target, metric)

    @classmethod
    def read(cls, folder: Path | str) -> "Search":
        """What a search has written to `folder` so far, or what `write` wrote."""
        import pandas as pd

        folder = Path(folder)
        if not (folder / PLAN).exists():
            rungs = pd.read_parquet(folder / RUNGS)
            stored = folders.read_json(folder / folders.CONFIG)
            frame = pd.read_parquet(folder / "cube.parquet")
            winner = stored["winner"] and folders.experiment_of(stored["winner"])
            return cls(
                frame,
                tuple(stored["axes"]),
                stored["complete"],
                folders.experiment_of(stored),
                stored["target"],
                rungs,
                stored["metric"],
                winner,
            )
        if (folder / RUNGS).exists():
            rungs = pd.read_parquet(folder / RUNGS)
        else:  # it was ended in its first rung
            rungs = pd.DataFrame(columns=COLUMNS)
        plan, parts = folders.read_json(folder / PLAN), read_parts(folder)
        base = folders.experiment_of(plan)
        found = cls(
            joined(assemble(plan["lanes"], parts)),
            tuple(plan["axes"]),
            _ended(rungs, len(plan["brackets"])),
            base,
            None,
            rungs,
            plan["metric"],
        )
        points = plan["configurations"]
        if base is None or any("'object'" in str(point) for point in points):
            return found
        return found.won_by(lambda i: member(base, folders.from_json(points[i])))

    def _metric(self, name: str | None) -> str:
        return super()._metric(name or self.metric or None)

    def _row(
        self, cell: "pd.Series", chosen: str, main: str, target: float
    ) -> dict[str, str]:
        # Runs that left early are not comparable: say how far each came.
        came = {"rounds run": f"{cell['ran']:.0f}"}
        return super()._row(cell, chosen, main, target) | came

    def _about(self) -> dict[str, Any]:
        winner = self.winner and folders.config(self.winner, "run")
        return super()._about() | {"metric": self.metric, "winner": winner}


def joined(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The frame of runs that were made rung by rung: every row of one is marked."""
    runs = frame.groupby(["configuration", "seed"])
    frame["diverged"] = runs["diverged"].transform("any")
    return frame


def _ended(rungs: "pd.DataFrame", brackets: int) -> bool:
    """Whether nobody is left to go on in any bracket."""
    if rungs["bracket"].nunique() < brackets:
        return False
    last = rungs.groupby("bracket")["rung"].transform("max")
    return not rungs["survived"][rungs["rung"] == last].any()
