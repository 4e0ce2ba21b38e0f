"""Frames of runs as summaries and tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_FAVOURITES = [
    f"{store}_{metric}"
    for metric in ("accuracy", "loss")
    for store in ("test", "valid", "train")
]


def main_metric(frame: "pd.DataFrame") -> str:
    """What runs are judged by: the test accuracy, or what comes nearest to it."""
    found = [name for name in _FAVOURITES if name in frame]
    return found[0] if found else "local_loss"


def falls(metric: str) -> bool:
    """Whether less is better."""
    return metric.endswith("loss")


def check_target(target: float, metric: str) -> float:
    """`target`, or a ValueError."""
    if metric.endswith("accuracy") and not 0 < target <= 1:
        raise ValueError(f"target must lie in (0, 1]: got {target}")
    return target


def rounds_to_target(
    frame: "pd.DataFrame", target: float, metric: str = "test_accuracy"
) -> float:
    """The first round whose metric reaches `target`, NaN if none does; no smoothing.

    For a loss (a metric whose name ends in "loss") reaching means falling to it.
    """
    values = frame[metric]
    reached = values <= target if falls(metric) else values >= target
    return float(frame["round"][reached].min())


def seconds_per_round(frame: "pd.DataFrame") -> float:
    """Median over the rounds after the first visit to the device, which compiles."""
    rates = np.diff(frame["seconds"].to_numpy(), prepend=0)
    later = rates[~np.isclose(rates, rates[0])]
    return float(np.median(later if len(later) else rates))


def summary(frame: "pd.DataFrame", target: float) -> dict[str, Any]:
    """One run in a few numbers; bits and seconds are totals."""
    metric = main_metric(frame)
    last = frame.dropna(subset=[metric]).iloc[-1]
    losses = [n for n in ("test_loss", "train_loss") if n in frame]
    finite = all(np.isfinite(frame[n].dropna()).all() for n in losses)
    reached = rounds_to_target(frame, target, metric)
    at = frame[frame["round"] == reached]
    best = frame[metric].min() if falls(metric) else frame[metric].max()
    return {
        "rounds": int(frame["round"].iloc[-1]),
        "metric": metric,
        "final": float(last[metric]),
        "best": float(best),
        **{f"final_{name}": float(last[name]) for name in losses},
        "target": target,
        "rounds_to_target": None if np.isnan(reached) else int(reached),
        "bits_to_target": None
        if at.empty
        else int(at["bits_up"].iloc[0] + at["bits_down"].iloc[0]),
        "bits_up": int(frame["bits_up"].iloc[-1]),
        "bits_down": int(frame["bits_down"].iloc[-1]),
        "seconds": float(frame["seconds"].iloc[-1]),
        "seconds_per_round": seconds_per_round(frame),
        "diverged": not finite,
    }


def by_seed(frame: "pd.DataFrame") -> "dict[int, pd.DataFrame]":
    """Seed -> its own rows, for one seed or several."""
    if "seed" not in frame:
        return {0: frame}
    groups = frame.groupby("seed")
    return {int(str(s)): rows.reset_index(drop=True) for s, rows in groups}


def comparison(
    frames: "Mapping[str, pd.DataFrame]", targets: Mapping[str, float]
) -> "pd.DataFrame":
    """One row per member: mean and spread over seeds of its main metric.

    Rounds to target are averaged over the seeds that reach it; `reached` says how many
    do. Bits are one seed's, both directions together; seconds are for all seeds.
    """
    import pandas as pd

    rows = {}
    for name, frame in frames.items():
        runs = [summary(rows, targets[name]) for rows in by_seed(frame).values()]
        final = np.array([r["final"] for r in runs])
        reached = np.array(
            [r["rounds_to_target"] for r in runs if r["rounds_to_target"] is not None]
        )
        rows[name] = {
            "metric": runs[0]["metric"],
            "final": final.mean(),
            "final_std": final.std(),
            "target": targets[name],
            "rounds_to_target": reached.mean() if len(reached) else np.nan,
            "rounds_std": reached.std() if len(reached) else np.nan,
            "reached": f"{len(reached)}/{len(runs)}",
            "megabits": np.mean([r["bits_up"] + r["bits_down"] for r in runs]) / 1e6,
            "seconds": max(r["seconds"] for r in runs),
        }
    return pd.DataFrame(rows).T.rename_axis("method")


def as_text(table: "pd.DataFrame") -> str:
    """The comparison as people read it; accuracies in percent."""
    metrics, targets = set(table["metric"]), set(table["target"])
    metric = str(table["metric"].iloc[0])
    same = len(metrics) == len(targets) == 1
    title = "final accuracy" if metrics == {"test_accuracy"} else f"final {metric}"
    to = _in_unit(metric, table["target"].iloc[0], "g")
    lines = [
        {
            "method": str(name),
            title if same else "final": _pair(r.metric, r.final, r.final_std)
            + ("" if same else f" ({r.metric})"),
            f"rounds to {to}" if same else "rounds to target": "-"
            if np.isnan(r.rounds_to_target)
            else f"{r.rounds_to_target:.1f} ± {r.rounds_std:.1f}",
            "reached": r.reached,
            "Mbit up + down": f"{r.megabits:.2f}",
            "seconds": f"{r.seconds:.1f}",
        }
        for name, r in table.iterrows()
    ]
    widths = {k: max(len(k), *(len(line[k]) for line in lines)) for k in lines[0]}
    rows = [{k: k for k in widths}, {k: "-" * w for k, w in widths.items()}, *lines]
    return "\n".join(
        "  ".join(
            v.ljust(widths[k]) if k == "method" else v.rjust(widths[k])
            for k, v in row.items()
        )
        for row in rows
    )


def _pair(metric: str, mean: float, std: float) -> str:
    percent = metric.endswith("accuracy")
    scale, form, unit = (100, ".1f", " %") if percent else (1, ".4f", "")
    return f"{scale * mean:{form}} ± {scale * std:{form}}{unit}"


def _in_unit(metric: str, value: float, form: str) -> str:
    percent = metric.endswith("accuracy")
    return f"{100 * value:{form}} %" if percent else f"{value:{form}}"
