"""The cells of a sweep in words: the rows of its table, and what stands below it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab import formats, pictures
from fedjax_mos.lab.columns import label
from fedjax_mos.lab.statistics import SPREADS

if TYPE_CHECKING:
    import pandas as pd


def row(
    cell: "pd.Series", axes: Sequence[str], chosen: str, main: str, target: float
) -> dict[str, str]:
    """A row of `Cube.table`: what the cell is, its two metrics, rounds to target."""
    line = {name: pictures.as_label(cell[name]) for name in axes}
    for name in dict.fromkeys((chosen, main)):
        text = "diverged"
        if not np.isnan(cell[name]):
            text = formats.pair(name, cell[name], cell[f"{name}_std"])
        line[name.replace("_", " ")] = text
    # A row of a frame has floats only.
    reached, seeds, ran = (int(cell[name]) for name in ("reached", "seeds", "ran"))
    mean, away, bound = (
        cell[name] for name in ("rounds_to_target", "rounds_std", "at_least")
    )
    rounds = formats.rounds_text(reached, seeds, mean, away, bound, ran)
    return line | {f"rounds to {formats.in_unit(main, target)}": rounds}


def notes(shown: int, whole: "pd.DataFrame", chosen: str, per: str | None) -> list[str]:
    """How many cells are shown, in which order, what ± is, and what diverged."""
    seeds = int(whole["seeds"].max())
    lines = [
        f"{shown} of {len(whole)} configurations"
        + ("" if per is None else f", the best for every {per}")
        + f", ordered by the final {label(chosen).removesuffix(' in %')}.",
        f"± {SPREADS['std']} ({seeds} seeds)."
        if seeds > 1
        else "One seed: no spread is known.",
    ]
    if whole["diverged"].any():
        count = int((whole["diverged"] > 0).sum())
        lines.append(f"{count} configurations have runs that diverged.")
    return lines
