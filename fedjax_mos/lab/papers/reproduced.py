"""What was run of a card: tables, a figure and a page."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab.files import whole
from fedjax_mos.lab.papers import table
from fedjax_mos.lab.papers.build import rounds_of
from fedjax_mos.lab.papers.card import SCALES, WINDOW, Card, Part
from fedjax_mos.lab.papers.page import page
from fedjax_mos.lab.papers.shared import CARD
from fedjax_mos.lab.pictures.papers import bars, panels
from fedjax_mos.lab.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.printed import Printed


@dataclasses.dataclass(frozen=True)
class Reproduced:
    """What was run of a card; `results` by part and member."""

    card: Card  #: the card that was run
    scale: str  #: paper or small
    rounds: int | None  #: instead of the scale's; None: the scale's
    results: dict[str, dict[str, Result]]  #: part -> member -> result
    frames: "dict[str, dict[str, pd.DataFrame]]"  #: with refined crossings
    complete: bool = True  #: no member was interrupted

    @property
    def frame(self) -> "pd.DataFrame":
        """One row per part, member and column: published, ours, ratio, verdict ..."""
        import pandas as pd

        rows = [row for part in self._parts for row in self._rows(part)]
        about = {"card": self.card.name, "scale": self._scale}
        return pd.DataFrame([about | row for row in rows])

    def printed(self) -> "dict[str, Printed]":
        """Part -> its table."""
        return {
            part.name: table.printed(
                part, self._rows(part), self._notes(part), self._scale == SCALES[0]
            )
            for part in self._parts
        }

    def figure(self) -> "Figure":
        """In the paper's layout: curves in panels, or bars of a table's numbers."""
        about = f"{self.card.source}. {self._scale_text}"
        if self.card.panels:
            return panels(self.card, self.frames, about)
        return bars({p.title: self._rows(p) for p in self._parts}, about)

    def markdown(self, about: Sequence[str] = ()) -> str:
        """The tables with what was assumed; `about` says where they come from."""
        return page(self.card, self._scale_text, self._parts, self.printed(), about)

    def write(self, folder: Path | str, about: Sequence[str] = ()) -> None:
        """card.md, card.csv and card.png."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with whole(folder / f"{CARD}.md") as path:
            path.write_text(self.markdown(about) + "\n", encoding="utf-8")
        with whole(folder / f"{CARD}.csv") as path:
            self.frame.to_csv(path, index=False)
        with whole(folder / f"{CARD}.png") as path:
            self.figure().savefig(path, dpi=120)

    @property
    def _parts(self) -> list[Part]:
        return [part for part in self.card.parts if part.name in self.results]

    def _rows(self, part: Part) -> list[dict[str, Any]]:
        return table.rows_of(part, self.frames[part.name], self._ran(part))

    def _ran(self, part: Part) -> int:
        return rounds_of(part, self.scale, self.rounds)

    @property
    def _scale(self) -> str:
        short = any(self._ran(p) < rounds_of(p, self.scale) for p in self._parts)
        return self.scale + ", shortened" * short

    @property
    def _scale_text(self) -> str:
        ran = ", ".join(dict.fromkeys(str(self._ran(p)) for p in self._parts))
        what = f"Scale: {self._scale}, {ran} rounds."
        if self.scale == "small":
            smaller = any(_changes_network(part) for part in self._parts)
            less = "Smaller network, fewer rounds" if smaller else "Fewer rounds"
            what += f" {less}: not the paper's numbers."
        return what

    def _notes(self, part: Part) -> list[str]:
        every = part.settings.get("eval_every", 1)
        found = self.results[part.name].values()
        counts = sorted({len(set(one.by_seed["seed"])) for one in found})
        seeds = " to ".join(dict.fromkeys(str(n) for n in (counts[0], counts[-1])))
        notes = [f"± sample standard deviation over seeds; seeds: {seeds}."]
        if every > 1:
            notes.append(f"Evaluated every {every} rounds")
            if any(c.target is not None for c in part.columns):
                notes[-1] += (
                    f", and every round over the {WINDOW} rounds before the first "
                    "crossing seen"
                )
            notes[-1] += "."
        if part.until_targets:
            notes.append("Runs end when every seed has reached every target.")
        return notes


def _changes_network(part: Part) -> bool:
    """Whether the small scale does more than end runs earlier."""
    return bool(part.scales["small"].keys() & {"model", "options"})
