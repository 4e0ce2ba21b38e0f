"""Tables of numbers as colours: sweeps, and who owns which classes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab.columns import in_percent, label
from fedjax_mos.lab.pictures.style import (
    COLOURS,
    MAP,
    caption,
    finish,
    new_figure,
    whole_numbers,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FULL = 0.5  # share of a grid's cells that must be there for a map of squares
_WRITTEN = 64  # cells up to which a number stands in each


def heat_map(cells: "pd.DataFrame", x: str, y: str, metric: str) -> "Figure":
    """The column `mean` of `cells` by two axes; the best over any other axis.

    A full grid is a map with its numbers; random points are drawn as points.
    """
    best = cells.groupby([y, x], dropna=False)["mean"].first()
    table = best.unstack(x).sort_index(axis=0).sort_index(axis=1)
    scale = 100 if in_percent(metric) else 1
    figure = new_figure(6.5, 4.8)
    axis = figure.subplots()
    if best.notna().sum() < _FULL * table.size and _numeric(table):
        known = best.dropna().reset_index()
        image: Any = axis.scatter(
            known[x], known[y], c=scale * known["mean"], cmap=MAP, s=60, edgecolor="0.3"
        )
        for set_scale, at in ((axis.set_xscale, known[x]), (axis.set_yscale, known[y])):
            if at.min() > 0 and at.max() > 20 * at.min():
                set_scale("log")
        text = f"{len(known)} random points."
    else:
        values = scale * table.to_numpy(float)
        image = axis.imshow(values, origin="lower", aspect="auto", cmap=MAP)
        axis.set_xticks(range(table.shape[1]), [as_label(v) for v in table.columns])
        axis.set_yticks(range(table.shape[0]), [as_label(v) for v in table.index])
        if table.size <= _WRITTEN:
            _numbers(axis, values, image)
        text = "Blank: diverged, or not tried."
    axis.set(xlabel=x, ylabel=y)
    figure.colorbar(image, label=f"final {label(metric)}")
    caption(figure, f"{text} Means over seeds, the best over any other axis.")
    return figure


def _numeric(table: "pd.DataFrame") -> bool:
    return all(np.asarray(i).dtype.kind in "if" for i in (table.index, table.columns))


def _numbers(axis: Any, values: np.ndarray, image: Any) -> None:
    middle = image.norm.vmin + 0.5 * (image.norm.vmax - image.norm.vmin)
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "black" if value > middle else "white"
            axis.text(
                j, i, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=7
            )


def partition_map(counts: np.ndarray, title: str = "") -> "Figure":
    """Examples by client and class [N, C], and how many examples clients have."""
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    image = left.imshow(
        counts.T, aspect="auto", cmap=MAP, origin="lower", interpolation="nearest"
    )
    left.set(xlabel="client", ylabel="class")
    figure.colorbar(image, label="examples", ax=left)
    sizes = counts.sum(axis=1)
    bins = min(30, max(1, int(sizes.max() - sizes.min()) + 1))
    right.hist(sizes, bins=bins, color=COLOURS[0], edgecolor="white")
    right.set(xlabel="examples of a client", ylabel="clients")
    whole_numbers(left.xaxis, left.yaxis, right.xaxis, right.yaxis)
    finish(right)
    figure.suptitle(title)
    classes = (counts > 0).sum(axis=1)
    caption(
        figure,
        f"{len(counts)} clients with {sizes.min()} to {sizes.max()} examples "
        f"(mean {sizes.mean():.1f}) of {classes.min()} to {classes.max()} classes.",
    )
    return figure


def as_label(value: Any) -> str:
    """A value on an axis or in a legend."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
