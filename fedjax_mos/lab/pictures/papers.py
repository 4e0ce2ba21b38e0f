"""A paper's table as bars beside the printed numbers, its figure as panels."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab.columns import in_percent, label
from fedjax_mos.lab.pictures.curves import X_AXES, draw_curve, spans_orders_of
from fedjax_mos.lab.pictures.style import COLOURS, caption, finish, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.papers.card import Card

_COLUMNS = 4  # panels side by side


def panels(
    card: "Card", frames: "Mapping[str, Mapping[str, pd.DataFrame]]", about: str
) -> "Figure":
    """One panel for each of the card's, as far as its members were run."""
    shown = [panel for panel in card.panels if panel.part in frames]
    wide = min(_COLUMNS, len(shown))
    high = -(-len(shown) // wide)
    figure = new_figure(4.2 * wide, 3.6 * high + 0.4)
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    titles = {m.name: m.title for part in card.parts for m in part.members}
    for axis, panel in zip(axes, shown, strict=False):
        known = {n: f for n, f in frames[panel.part].items() if n in panel.members}
        for number, name in enumerate(panel.members):
            if name in known and panel.metric in known[name]:
                draw_curve(
                    axis, number, titles[name], known[name], panel.metric,
                    x=card.x, smooth=card.smooth,
                )  # fmt: skip
        log = spans_orders_of(known, panel.metric)
        finish(axis, percent=in_percent(panel.metric), log=log)
        axis.set(xlabel=X_AXES[card.x], ylabel=label(panel.metric), title=panel.title)
        if axis.get_legend_handles_labels()[1]:
            axis.legend(fontsize=7)
    for axis in axes[len(shown) :]:
        axis.remove()
    smooth = f" Moving average over {card.smooth} evaluations." * (card.smooth > 1)
    caption(figure, f"{about} Means over seeds, bands ± standard deviation.{smooth}")
    return figure


def bars(parts: Mapping[str, Sequence[Mapping[str, Any]]], about: str) -> "Figure":
    """Per part and column the published value and ours of every member."""
    cells = [
        (part, column, [row for row in rows if row["column"] == column])
        for part, rows in parts.items()
        for column in dict.fromkeys(row["column"] for row in rows)
    ]
    wide = min(2, len(cells))
    high = -(-len(cells) // wide)
    most = max(len(rows) for _, _, rows in cells)
    figure = new_figure(max(4.5, 0.75 * most) * wide, 3.4 * high + 0.4)
    axes = figure.subplots(high, wide, squeeze=False).ravel()
    for axis, (part, column, rows) in zip(axes, cells, strict=False):
        at = np.arange(len(rows))
        numbers = [isinstance(row["published"], int | float) for row in rows]
        heights = [
            row["published"] if known else np.nan
            for row, known in zip(rows, numbers, strict=True)
        ]
        ours = [row.get("ours", np.nan) for row in rows]
        away = [row.get("spread", np.nan) for row in rows]
        axis.bar(at - 0.2, heights, 0.38, color="0.75", label="published")
        axis.bar(at + 0.2, ours, 0.38, color=COLOURS[0], label="ours")
        axis.errorbar(at + 0.2, ours, np.nan_to_num(away), fmt="none", color="0.3")
        least = np.where(
            np.isnan(ours), [row.get("at_least", np.nan) for row in rows], np.nan
        )
        if not np.isnan(least).all():
            look = {"fill": False, "hatch": "///", "edgecolor": COLOURS[0]}
            axis.bar(at + 0.2, least, 0.38, label="ours, at least", **look)
        names = [row["title"] for row in rows]
        axis.set_xticks(at, names, rotation=45, ha="right", rotation_mode="anchor")
        axis.tick_params(axis="x", labelsize=7)
        axis.set_title(f"{part}\n{column}", fontsize=9)
        finish(axis)
        axis.legend(fontsize=7)
    for axis in axes[len(cells) :]:
        axis.remove()
    caption(
        figure,
        f"{about} Whiskers: ± sample standard deviation over seeds. No bar: not "
        "printed or not run.",
    )
    return figure
