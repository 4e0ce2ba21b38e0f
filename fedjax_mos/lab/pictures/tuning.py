"""Numbers on the way of a tuning by gradient."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab.columns import label
from fedjax_mos.lab.pictures.style import (
    COLOURS,
    caption,
    every,
    finish,
    line,
    new_figure,
    spans_orders,
    whole_numbers,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def trajectory(
    frame: "pd.DataFrame",
    objective: str,
    names: Sequence[str],
    best: "pd.Series",
    baseline: "pd.Series | None" = None,
) -> "Figure":
    """The objective by cost, the best so far, a baseline's best so far; the numbers.

    `best` and `baseline` are the lowest objectives so far, by cost in rounds.
    """
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    for origin, mark in {"start": "s", "halving": "^", "gradient": "o"}.items():
        here = frame[frame["from"] == origin]
        if len(here):
            points = {"linestyle": "", "color": "0.6", "ms": 4, "label": origin}
            left.plot(here["cost"], here[objective], marker=mark, **points)
    left.plot(best.index, best, color=COLOURS[0], label="best so far")
    if baseline is not None:
        left.plot(
            baseline.index,
            baseline,
            color=COLOURS[1],
            linestyle="--",
            label="best so far, random sweep",
        )
    left.set(xlabel="cost in rounds", ylabel=label(objective))
    for number, name in enumerate(names):
        right.plot(
            frame["update"],
            frame[name],
            label=name,
            markevery=every(len(frame)),
            ms=4,
            **line(number)._asdict(),
        )
    right.set(xlabel="update", ylabel="value")
    whole_numbers(right.xaxis)
    for axis in (left, right):
        lines = [np.asarray(one.get_ydata(), float) for one in axis.get_lines()]
        shown = np.concatenate(lines)
        finish(axis, log=spans_orders(shown[np.isfinite(shown)]))
        axis.legend(fontsize=8)
    caption(figure, "A gradient costs several runs; of an array its mean is drawn.")
    return figure
