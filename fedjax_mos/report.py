"""Histories as summaries, tables, files and pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COLUMNS = (
    "round",
    "train_loss",
    "test_loss",
    "test_accuracy",
    "bits_up",
    "bits_down",
    "seconds",
)


def rounds_to_target(
    history: "pd.DataFrame", target: float, metric: str = "test_accuracy"
) -> float:
    """The first round whose metric reaches `target`, NaN if none does; no smoothing.

    For a loss (a metric whose name ends in "loss") reaching means falling to it.
    """
    values = history[metric]
    reached = values <= target if metric.endswith("loss") else values >= target
    return float(history["round"][reached].min())


def seconds_per_round(history: "pd.DataFrame") -> float:
    """Median over the rounds after the first visit to the device, which compiles."""
    rates = np.diff(history["seconds"].to_numpy(), prepend=0)
    later = rates[~np.isclose(rates, rates[0])]
    return float(np.median(later if len(later) else rates))


def summary(history: "pd.DataFrame", target: float) -> dict[str, Any]:
    """One run in a few numbers; bits and seconds are totals."""
    last = history.dropna(subset=["test_accuracy"]).iloc[-1]
    finite = np.isfinite(history["test_loss"].dropna()).all()
    reached = rounds_to_target(history, target)
    at = history[history["round"] == reached]
    return {
        "rounds": int(history["round"].iloc[-1]),
        "final_accuracy": float(last["test_accuracy"]),
        "best_accuracy": float(history["test_accuracy"].max()),
        "final_test_loss": float(last["test_loss"]),
        "final_train_loss": float(last["train_loss"]),
        "target": target,
        "rounds_to_target": None if np.isnan(reached) else int(reached),
        "bits_to_target": None
        if at.empty
        else int(at["bits_up"].iloc[0] + at["bits_down"].iloc[0]),
        "bits_up": int(history["bits_up"].iloc[-1]),
        "bits_down": int(history["bits_down"].iloc[-1]),
        "seconds": float(history["seconds"].iloc[-1]),
        "seconds_per_round": seconds_per_round(history),
        "diverged": not finite,
    }


def by_seed(history: "pd.DataFrame") -> "dict[int, pd.DataFrame]":
    """Seed -> its own history, for one seed or several."""
    if "seed" not in history:
        return {0: history}
    groups = history.groupby("seed")
    return {int(str(s)): h.reset_index(drop=True) for s, h in groups}


def comparison(
    histories: "Mapping[str, pd.DataFrame]", target: float
) -> "pd.DataFrame":
    """One row per member: mean and spread over seeds.

    Rounds to target are averaged over the seeds that reach it; `reached` says how many
    do. Bits are one seed's, both directions together; seconds are for all seeds.
    """
    import pandas as pd

    rows = {}
    for name, history in histories.items():
        runs = [summary(h, target) for h in by_seed(history).values()]
        accuracy = np.array([r["final_accuracy"] for r in runs])
        reached = np.array(
            [r["rounds_to_target"] for r in runs if r["rounds_to_target"] is not None]
        )
        rows[name] = {
            "accuracy": accuracy.mean(),
            "accuracy_std": accuracy.std(),
            "rounds_to_target": reached.mean() if len(reached) else np.nan,
            "rounds_std": reached.std() if len(reached) else np.nan,
            "reached": f"{len(reached)}/{len(runs)}",
            "megabits": np.mean([r["bits_up"] + r["bits_down"] for r in runs]) / 1e6,
            "seconds": max(r["seconds"] for r in runs),
        }
    return pd.DataFrame(rows).T.rename_axis("method")


def as_text(table: "pd.DataFrame", target: float) -> str:
    """The comparison as people read it."""

    def pair(mean: float, std: float, form: str) -> str:
        return "-" if np.isnan(mean) else f"{mean:{form}} ± {std:{form}}"

    lines = [
        {
            "method": name,
            "final accuracy": pair(100 * r.accuracy, 100 * r.accuracy_std, ".1f")
            + " %",
            f"rounds to {100 * target:g} %": pair(
                r.rounds_to_target, r.rounds_std, ".1f"
            ),
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


def curves(histories: "Mapping[str, pd.DataFrame]", title: str = "") -> "Figure":
    """Training loss and test accuracy by round; bands span the seeds (one std)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)  # no screen needed
    panels = {"train_loss": "training loss", "test_accuracy": "test accuracy"}
    for axis, (metric, label) in zip(
        figure.subplots(1, 2), panels.items(), strict=True
    ):
        for name, history in histories.items():
            grouped = history.dropna(subset=[metric]).groupby("round")[metric]
            mean, std = grouped.mean(), grouped.std(ddof=0).fillna(0)
            (line,) = axis.plot(mean.index, mean, label=name)
            axis.fill_between(
                mean.index, mean - std, mean + std, color=line.get_color(), alpha=0.2
            )
        axis.set(xlabel="round", ylabel=label)
        axis.grid(alpha=0.3)
    figure.axes[0].legend()
    figure.suptitle(title)
    return figure


def write(
    folder: Path,
    config: Mapping[str, Any],
    history: "pd.DataFrame",
    target: float,
    title: str,
) -> dict[str, Any]:
    """config.json, history.csv, summary.json and curves.png of one experiment.

    With several seeds the summary is a list, one entry per seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ids = ["seed"] if "seed" in history else []
    first = [*ids, *COLUMNS]
    others = [name for name in history if name not in first]
    history[[*first, *others]].to_csv(folder / "history.csv", index=False)
    runs = {seed: summary(h, target) for seed, h in by_seed(history).items()}
    out: Any = [{"seed": s} | r for s, r in runs.items()] if ids else runs[0]
    write_json(folder / "config.json", config)
    write_json(folder / "summary.json", out)
    curves({title: history}).savefig(folder / "curves.png", dpi=120)
    return out


def write_json(path: Path, value: Any) -> None:
    """Readable JSON; paths and arrays become text and lists."""
    path.write_text(json.dumps(value, indent=2, default=str) + "\n")
