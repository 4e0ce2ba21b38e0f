"""Pictures of runs; none needs a screen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab.tables import main_metric

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_LABELS = {"train_loss": "training loss", "test_accuracy": "test accuracy"}


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure that can be saved anywhere."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def curves(frames: "Mapping[str, pd.DataFrame]", title: str = "") -> "Figure":
    """The loss and the main metrics by round; bands span the seeds (one std)."""
    losses = [
        "train_loss" if "train_loss" in f else "local_loss" for f in frames.values()
    ]
    panels = dict.fromkeys([*losses, *map(main_metric, frames.values())])
    figure = new_figure(5 * len(panels), 4)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, metric in zip(axes, panels, strict=True):
        for name, frame in frames.items():
            if metric not in frame:
                continue
            grouped = frame.dropna(subset=[metric]).groupby("round")[metric]
            mean, std = grouped.mean(), grouped.std(ddof=0).fillna(0)
            (line,) = axis.plot(mean.index, mean, label=name)
            axis.fill_between(
                mean.index, mean - std, mean + std, color=line.get_color(), alpha=0.2
            )
        axis.set(xlabel="round", ylabel=_LABELS.get(metric, metric.replace("_", " ")))
        axis.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.suptitle(title)
    return figure


def heat_map(table: "pd.DataFrame", label: str) -> "Figure":
    """A table of numbers by row and column; blank: none."""
    figure = new_figure(6, 4.5)
    axis = figure.subplots()
    image = axis.imshow(table, origin="lower", aspect="auto")
    axis.set_xticks(range(table.shape[1]), [as_label(v) for v in table.columns])
    axis.set_yticks(range(table.shape[0]), [as_label(v) for v in table.index])
    axis.set(xlabel=table.columns.name, ylabel=table.index.name)
    figure.colorbar(image, label=label)
    return figure


def as_label(value: Any) -> str:
    """A value on an axis or in a legend."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
