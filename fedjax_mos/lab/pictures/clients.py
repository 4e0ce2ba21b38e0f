"""Clients one by one: who is chosen, and how each fares."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab.columns import in_percent, label
from fedjax_mos.lab.pictures.style import caption, every, finish, line, new_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def selection(
    cohorts: "Mapping[str, pd.DataFrame]", examples: Mapping[str, np.ndarray]
) -> "Figure":
    """How often clients take part, and how much their weights vary, by their size."""
    figure = new_figure(10, 4.2)
    left, right = figure.subplots(1, 2)
    for number, (name, rows) in enumerate(cohorts.items()):
        size = examples[name]
        index = [n for n in ("seed", "round") if n in rows]
        rounds = len(rows[index].drop_duplicates())
        often = np.bincount(rows["client"], minlength=len(size)) / rounds
        # A client that does not take part has weight zero in that round.
        first = np.bincount(rows["client"], rows["weight"], len(size)) / rounds
        second = np.bincount(rows["client"], rows["weight"] ** 2, len(size)) / rounds
        style = {"color": line(number).color, "marker": line(number).marker}
        left.scatter(size, often, label=name, s=16, alpha=0.7, **style)
        right.scatter(size, second - first**2, s=16, alpha=0.7, **style)
    left.set(xlabel="examples of the client", ylabel="share of rounds it takes part in")
    right.set(xlabel="examples of the client", ylabel="variance of its weight")
    finish(left)
    finish(right)
    left.legend(fontsize=8)
    caption(figure, "One point per client, over all rounds and seeds that were kept.")
    return figure


def client_distributions(
    clients: "Mapping[str, pd.DataFrame]", metric: str
) -> "Figure":
    """The share of clients at or below each value: of the server's model and, if there
    are any, of personal ones."""
    columns = [metric, f"personal_{metric}"]
    panels = [c for c in columns if any(c in frame for frame in clients.values())]
    if not panels:
        known = [str(c) for f in clients.values() for c in f if "_" in str(c)]
        raise ValueError(
            f"metric must be one of {', '.join(dict.fromkeys(known))}: got {metric!r}"
        )
    figure = new_figure(5 * len(panels), 4.2)
    axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
    for axis, column in zip(axes, panels, strict=True):
        for number, (name, frame) in enumerate(clients.items()):
            if column not in frame:
                continue
            values = np.sort(frame[column].dropna())
            share = np.arange(1, len(values) + 1) / len(values)
            scale = 100 if in_percent(column) else 1
            axis.step(
                scale * values,
                share,
                where="post",
                label=name,
                markevery=every(len(values)),
                ms=4,
                **line(number)._asdict(),
            )
        axis.set(xlabel=label(column), ylabel="share of clients at or below, in %")
        finish(axis, percent=True)
    axes[0].legend(fontsize=8)
    caption(
        figure,
        "Every client on its own examples after the last round, all seeds together; "
        "personal: after a round's local steps of SGD.",
    )
    return figure
