"""Comparisons as tables: numbers for programs, and text, Markdown, CSV and LaTeX."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab import summaries
from fedjax_mos.lab.columns import falls
from fedjax_mos.lab.formats import in_unit, p_value, pair, rounds_text, signed
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.statistics import SPREADS, check_spread, paired, spread

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a table is to show besides the final values of the main metric."""

    targets: Mapping[str, Sequence[float]]  # by member
    metric: str | None = None  # by default each member's main one
    at: Sequence[int] = ()  # rounds to show the metric after
    baseline: str | None = None  # a member that the others are tested against
    spread: str = "std"
    untuned: Sequence[str] = ()  # members whose numbers were tuned for other data


def comparison(frames: "Mapping[str, pd.DataFrame]", asked: Asked) -> "pd.DataFrame":
    """One row per member, numbers only.

    `final` is the mean over seeds of the last value, `final_spread` as asked (NaN for
    one seed). Per target `rounds_to_T` is the mean over the seeds that reach it,
    `reached_T` how many do. Bits are one seed's, both directions together; seconds are
    for all seeds.
    """
    import pandas as pd

    check_spread(asked.spread)
    if asked.baseline is not None and asked.baseline not in frames:
        raise ValueError(
            f"baseline must be one of {', '.join(frames)}: got {asked.baseline!r}"
        )
    rows = {name: _row(name, frame, frames, asked) for name, frame in frames.items()}
    return pd.DataFrame(rows).T.rename_axis("method")


def _row(
    name: str,
    frame: "pd.DataFrame",
    frames: "Mapping[str, pd.DataFrame]",
    asked: Asked,
) -> dict[str, Any]:
    metric = summaries.check_metric(frame, asked.metric)
    final = summaries.final(frame, metric)
    row: dict[str, Any] = {
        "metric": metric,
        "seeds": len(final),
        # Not the mean over those that happened to survive.
        "final": final.mean(skipna=False),
        "diverged": sum(
            summaries.diverged_at(run) is not None
            for run in summaries.by_seed(frame).values()
        ),
        "diverged_at": summaries.diverged_at(frame) or np.nan,
        "final_spread": spread(final, asked.spread),
        "rounds": int(frame["round"].max()),
    }
    for at in asked.at:
        runs = summaries.by_seed(frame).values()
        values = [summaries.at_round(run, at, metric) for run in runs]
        row |= {f"at_{at}": np.mean(values)}
        row |= {f"at_{at}_spread": spread(values, asked.spread)}
    for target in asked.targets[name]:
        row |= _to_target(frame, target, metric, asked.spread)
    if asked.baseline is not None:
        row |= _against(frame, frames[asked.baseline], metric, asked.targets[name])
    # Cumulative columns: their last values are their greatest.
    totals = [rows.max() for rows in summaries.by_seed(frame).values()]
    bits = [total["bits_up"] + total["bits_down"] for total in totals]
    row["megabits"] = np.mean(bits) / 1e6
    row["seconds"] = max(total["seconds"] for total in totals)
    return row


def _to_target(
    frame: "pd.DataFrame", target: float, metric: str, kind: str
) -> dict[str, Any]:
    """Mean over the seeds that reach it, how many do, and a bound for all seeds."""
    found = summaries.targets(frame, [target], metric)
    reached = found["reached"].dropna()
    return {
        f"rounds_to_{target:g}": reached.mean() if len(reached) else np.nan,
        f"rounds_to_{target:g}_spread": spread(reached, kind),
        f"reached_{target:g}": len(reached),
        # Those that did not reach it count with the rounds that they ran.
        f"at_least_{target:g}": found["reached"].fillna(found["rounds"]).mean(),
    }


def _against(
    frame: "pd.DataFrame",
    baseline: "pd.DataFrame",
    metric: str,
    targets: Sequence[float],
) -> dict[str, Any]:
    """Difference to the baseline over common seeds, and how many times faster."""
    if metric not in baseline:  # it is measured otherwise
        names = ["difference", "p_value", *(f"speedup_{t:g}" for t in targets)]
        return dict.fromkeys(names, np.nan)
    ours, theirs = (summaries.final(f, metric) for f in (frame, baseline))
    common = [seed for seed in ours.index if seed in theirs.index]
    row: dict[str, Any] = {"difference": np.nan, "p_value": np.nan}
    if common:
        test = paired(ours[common], theirs[common])
        row = {"difference": test.difference, "p_value": test.p_value}
    for target in targets:
        mine, other = (
            summaries.targets(f, [target], metric)["reached"].to_numpy()
            for f in (frame, baseline)
        )
        # Only where all seeds of both reach it: a factor of survivors means nothing.
        whole = not (np.isnan(mine).any() or np.isnan(other).any())
        row[f"speedup_{target:g}"] = other.mean() / mine.mean() if whole else np.nan
    return row


def printed(table: "pd.DataFrame", asked: Asked) -> Printed:
    """The comparison as people read it: percent, "T+", best in bold, notes."""
    metrics = list(dict.fromkeys(table["metric"]))
    same = len(metrics) == 1
    wanted = {tuple(asked.targets[name]) for name in table.index}
    cells, bold = [], []
    for name, row in table.iterrows():
        mark = " *" if name in asked.untuned else ""
        line = {"method": f"{name}{mark}"}
        title = f"final {_words(row['metric'])}" if same else "final"
        line[title] = _final(row)
        if not same:
            line[title] += f" ({row['metric']})"
        for at in asked.at:
            value, away = row[f"at_{at}"], row[f"at_{at}_spread"]
            line[f"after round {at}"] = pair(row["metric"], value, away)
        for place, target in enumerate(asked.targets[str(name)]):
            shown = in_unit(row["metric"], target)
            alone = len(asked.targets[str(name)]) == 1
            head = "rounds to target" + ("" if alone else f" {place + 1}")
            one = same and len(wanted) == 1
            line[f"rounds to {shown}" if one else head] = _rounds(row, target)
            if asked.baseline is not None:
                factor = row[f"speedup_{target:g}"]
                times = "-" if np.isnan(factor) else f"{factor:.2f}x"
                line[f"speed-up at {shown}" if one else f"speed-up {place + 1}"] = times
        if asked.baseline is not None:
            own = name == asked.baseline
            line["difference"] = "" if own else signed(row["metric"], row["difference"])
            line["p"] = "" if own else p_value(row["p_value"])
        line["Mbit up + down"] = f"{row['megabits']:.2f}"
        line["seconds"] = f"{row['seconds']:.1f}"
        cells.append(line)
    if same and len(table) > 1:
        finals = table["final"].astype(float)
        best = finals.min() if falls(metrics[0]) else finals.max()
        title = f"final {_words(metrics[0])}"
        bold = [(i, title) for i, value in enumerate(finals) if value == best]
    return Printed(cells, bold, _notes(table, asked))


def _notes(table: "pd.DataFrame", asked: Asked) -> list[str]:
    seeds = sorted(set(table["seeds"]))
    notes = []
    if seeds[-1] > 1:
        count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        notes.append(f"± {SPREADS[asked.spread]} ({count} seeds).")
    else:
        notes.append("One seed: no spread is known.")
    short = [
        name
        for name, row in table.iterrows()
        for t in asked.targets[str(name)]
        if row[f"reached_{t:g}"] < row["seeds"]
    ]
    if short:
        notes.append(
            "T+: not reached in T rounds; \N{GREATER-THAN OR EQUAL TO} M (k/n): "
            "reached by k of n seeds, the mean with T for the others."
        )
    if asked.baseline is not None:
        notes.append(
            f"difference and p: final value against {asked.baseline}, paired t-test "
            "over common seeds; speed-up: its rounds to the target over the method's."
        )
    if (table["diverged"] > 0).any():
        notes.append(
            "diverged: a loss or a parameter was no finite number, first in that "
            "round; often the step size is too large."
        )
    if asked.untuned:
        notes.append("* numbers not tuned for this data set.")
    return notes


def _final(row: Any) -> str:
    if row["diverged"]:
        which = f"{row['diverged']}/{row['seeds']} seeds, " if row["seeds"] > 1 else ""
        return f"diverged ({which}round {row['diverged_at']:g})"
    return pair(row["metric"], row["final"], row["final_spread"])


def _rounds(row: Any, target: float) -> str:
    return rounds_text(
        row[f"reached_{target:g}"],
        row["seeds"],
        row[f"rounds_to_{target:g}"],
        row[f"rounds_to_{target:g}_spread"],
        row[f"at_least_{target:g}"],
        row["rounds"],
    )


def _words(metric: str) -> str:
    return "accuracy" if metric == "test_accuracy" else metric
