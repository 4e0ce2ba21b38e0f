"""A search: who had reached what at which rung, and who went on."""

from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab.columns import falls, in_percent, label
from fedjax_mos.lab.pictures.style import (
    COLOURS,
    caption,
    finish,
    new_figure,
    spans_orders,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def halving(rungs: "pd.DataFrame", metric: str) -> "Figure":
    """Every configuration's value at its rungs; the winner, and those that left."""
    figure = new_figure(8, 4.5)
    axis = figure.subplots()
    known = rungs.dropna(subset=["value"])
    furthest = known.groupby("configuration")["round"].max()
    ends = known[known["round"] == furthest.max()].sort_values(
        "value", ascending=falls(metric), kind="stable"
    )
    last, winner = set(ends["configuration"]), ends["configuration"].iloc[0]
    for number, rows in known.groupby("configuration"):
        colour = "0.75" if number not in last else COLOURS[0]
        heavy = number == winner
        axis.plot(
            rows["round"],
            rows["value"],
            "o-",
            color=COLOURS[1] if heavy else colour,
            ms=6 if heavy else 3,
            linewidth=2.5 if heavy else 0.8,
            zorder=2 + heavy + (number in last),
            label={winner: "the winner"}.get(number),
        )
    counts = rungs.groupby("round")["configuration"].nunique()
    for end, count in zip(counts.index.tolist(), counts, strict=True):
        axis.axvline(end, color="0.5", linewidth=0.6, linestyle=":", zorder=1)
        axis.annotate(
            f"{count}",
            (end, 1.0),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize=8,
            color="0.35",
        )
    axis.set_xscale("log")
    axis.set_xticks(list(counts.index), [str(end) for end in counts.index], minor=False)
    axis.set_xticks([], minor=True)
    axis.set(xlabel="round", ylabel=label(metric))
    values = known["value"].to_numpy()
    finish(
        axis,
        percent=in_percent(metric),
        log=falls(metric) and spans_orders(values[np.isfinite(values)]),
    )
    axis.legend(fontsize=8)
    lost = rungs.loc[rungs["value"].isna(), "configuration"].nunique()
    text = "Means over seeds. Above each rung the number of configurations ranked there"
    caption(figure, f"{text}{f'; {lost} diverged' if lost else ''}.")
    return figure
