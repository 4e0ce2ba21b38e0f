"""Metrics by round, bits, gradients or seconds, and rounds to targets."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab import summaries
from fedjax_mos.lab.columns import in_percent, label
from fedjax_mos.lab.formats import in_unit
from fedjax_mos.lab.pictures.style import (
    caption,
    every,
    finish,
    line,
    new_figure,
    spans_orders,
    whole_numbers,
)
from fedjax_mos.lab.statistics import SPREADS, check_spread, spread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X_AXES = {
    "round": "round",
    "bits": "Mbit up + down, so far",
    "gradients": "gradients of single examples so far",
    "seconds": "seconds so far",
}


def curves(
    frames: "Mapping[str, pd.DataFrame]",
    *,
    metrics: Sequence[str] | None = None,
    x: str = "round",
    band: str = "std",
    smooth: int = 1,
    per_round: Mapping[str, float] | None = None,
    title: str = "",
) -> "Figure":
    """Means over seeds with a band; by default the training loss and the main metric.

    `x` is round, bits, gradients (`per_round` says how many a member computes) or
    seconds. `smooth` is the window of a moving average over evaluations.
    """
    check_spread(band)
    if x not in X_AXES:
        raise ValueError(f"x must be one of {', '.join(X_AXES)}: got {x!r}")
    for metric in metrics or ():
        if not any(metric in summaries.metrics_of(f) for f in frames.values()):
            summaries.check_metric(next(iter(frames.values())), metric)  # raises
    panels = list(metrics or _default_metrics(frames))
    figure = new_figure(5 * len(panels), 4.2)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    banded = False
    for axis, metric in zip(axes, panels, strict=True):
        for number, (name, frame) in enumerate(frames.items()):
            if metric in frame:
                scale = (per_round or {}).get(name, np.nan)
                banded |= draw_curve(
                    axis, number, name, frame, metric, x, band, smooth, scale
                )
        finish(axis, percent=in_percent(metric), log=spans_orders_of(frames, metric))
        axis.set(xlabel=X_AXES[x], ylabel=label(metric))
        if x == "round":
            whole_numbers(axis.xaxis)
    _legends(axes)
    if title:
        figure.suptitle(title)
    text = (
        f"Lines: means over seeds; bands: ± {SPREADS[band]}." if banded else "One seed."
    )
    if smooth > 1:
        text += f" Moving average over {smooth} evaluations."
    if any("diverged" in f and f["diverged"].any() for f in frames.values()):
        text += " A cross ends a line where a seed diverged."
    caption(figure, text)
    return figure


def _legends(axes: "Sequence[Axes]") -> None:
    """One for all panels, and one for each that shows other members."""
    known: list[str] = []
    for axis in axes:
        names = axis.get_legend_handles_labels()[1]
        if names and names != known:
            axis.legend(fontsize=8, ncols=1 if len(names) < 6 else 2)
        known = known or names


def draw_curve(
    axis: "Axes",
    number: int,
    name: str,
    frame: "pd.DataFrame",
    metric: str,
    x: str = "round",
    band: str = "std",
    smooth: int = 1,
    per_round: float = np.nan,
) -> bool:
    """One member's line; whether it has a band."""
    frame, lost = _until_divergence(frame)  # whose losses may be missing numbers
    frame = frame.dropna(subset=[metric])
    if frame.empty:
        return False
    if smooth > 1:
        runs = frame.groupby("seed") if "seed" in frame else frame.groupby(lambda _: 0)
        rolled = runs[metric].rolling(smooth, min_periods=1).mean()
        frame = frame.assign(**{metric: rolled.droplevel(0)})
    groups = frame.groupby("round")
    mean = groups[metric].mean()
    at = _positions(groups, x, per_round)
    style = line(number)
    axis.plot(at, mean, label=name, markevery=every(len(mean)), ms=4, **style._asdict())
    if lost:
        axis.plot(at.iloc[-1], mean.iloc[-1], "x", color=style.color, ms=10, mew=2)
    away = groups[metric].agg(lambda values: spread(values, band))
    if away.isna().all():
        return False
    low, high = mean - away, mean + away
    if (low <= 0).any() and (mean > 0).all():
        low = low.clip(lower=mean.min() / 10)  # a logarithm has no zero
    axis.fill_between(at, low, high, color=style.color, alpha=0.18, linewidth=0)
    return True


def _until_divergence(frame: "pd.DataFrame") -> "tuple[pd.DataFrame, bool]":
    """The rows before any seed diverged, and whether one did."""
    if "diverged" not in frame or not frame["diverged"].any():
        return frame, False
    first = frame["round"][frame["diverged"]].min()
    return frame[frame["round"] < first], True


def _positions(groups: Any, x: str, per_round: float) -> "pd.Series":
    """Where the points of a curve lie, by round."""
    rounds = groups["round"].first()
    if x == "bits":
        return (groups["bits_up"].mean() + groups["bits_down"].mean()) / 1e6
    if x == "seconds":
        return groups["seconds"].mean()
    return rounds * per_round if x == "gradients" else rounds


def _default_metrics(frames: "Mapping[str, pd.DataFrame]") -> list[str]:
    losses = [
        "train_loss" if "train_loss" in f else "local_loss" for f in frames.values()
    ]
    return list(dict.fromkeys([*losses, *map(summaries.main_metric, frames.values())]))


def spans_orders_of(frames: "Mapping[str, pd.DataFrame]", metric: str) -> bool:
    """Whether means span so much that only a logarithm shows them."""
    if in_percent(metric):
        return False
    every_mean = [
        f.groupby("round")[metric].mean().dropna()
        for f in frames.values()
        if metric in f
    ]
    values = np.concatenate([m[np.isfinite(m)].to_numpy() for m in every_mean])
    return spans_orders(values)


def target_bars(
    frames: "Mapping[str, pd.DataFrame]",
    targets: Sequence[float],
    metric: str | None = None,
    band: str = "std",
) -> "Figure":
    """Rounds to each target as bars; an open bar: not reached by all seeds."""
    check_spread(band)
    figure = new_figure(max(5, 1.2 * len(frames) * len(targets)), 4.2)
    axis = figure.subplots()
    width = 0.8 / len(frames)
    any_open = False
    for number, (name, frame) in enumerate(frames.items()):
        found = summaries.targets(frame, targets, metric)
        for place, target in enumerate(targets):
            rows = found[found["target"] == target]
            missing = bool(rows["reached"].isna().any())
            any_open |= missing
            counts = rows["reached"].fillna(rows["rounds"])
            at = place + (number - (len(frames) - 1) / 2) * width
            style = line(number)
            axis.bar(
                at,
                counts.mean(),
                0.9 * width,
                color="none" if missing else style.color,
                edgecolor=style.color,
                hatch="//" if missing else None,
                label=name if place == 0 else None,
            )
            away = spread(counts, band)
            if not missing and not np.isnan(away):
                axis.errorbar(at, counts.mean(), away, color="0.3", capsize=3)
            text = (
                f"{int(rows['rounds'].max())}+" if missing else f"{counts.mean():.1f}"
            )
            top = counts.mean() + (0 if missing or np.isnan(away) else away)
            axis.annotate(
                text,
                (at, top),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
    name = summaries.check_metric(next(iter(frames.values())), metric)
    axis.set_xticks(range(len(targets)), [in_unit(name, t) for t in targets])
    axis.set(
        xlabel=f"target: {label(name).removesuffix(' in %')}", ylabel="rounds to target"
    )
    finish(axis)
    axis.legend(fontsize=8)
    text = f"First raw crossing. Whiskers: ± {SPREADS[band]}."
    if any_open:
        text += (
            " Hatched, T+: some seed did not reach it in T rounds and counts with T."
        )
    caption(figure, text)
    return figure
