"""Published numbers beside ours."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_mos.lab import summaries
from fedjax_mos.lab.columns import in_percent
from fedjax_mos.lab.formats import rounds_text
from fedjax_mos.lab.papers.build import round_of
from fedjax_mos.lab.papers.card import Column, Part, Value
from fedjax_mos.lab.papers.verdict import summary, verdict
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.statistics import spread

if TYPE_CHECKING:
    import pandas as pd

_ROUNDS = "rounds"


def rows_of(
    part: Part, frames: "dict[str, pd.DataFrame]", ran: int
) -> list[dict[str, Any]]:
    """One row per member and column: the published value, ours, ratio and verdict."""
    rows = []
    for member in part.members:
        printed = part.published.get(member.name, ("",) * len(part.columns))
        for column, value in zip(part.columns, printed, strict=True):
            row = {
                "part": part.name,
                "member": member.name,
                "title": member.title,
                "column": title(column, part, ran),
                "published": value,
            }
            if member.name in frames:
                row |= _ours(frames[member.name], column, part, ran)
                row["ratio"] = _ratio(row, value)
                row["verdict"] = verdict(row, column)
            rows.append(row)
    return rows


def title(column: Column, part: Part, ran: int) -> str:
    """A column's title, with the round in which it was read instead of the paper's."""
    if column.after is None or (at := round_of(column, part, ran)) == column.after:
        return column.title
    return f"{column.title} (here {at})"


def printed(
    part: Part, rows: list[dict[str, Any]], notes: list[str], whole: bool
) -> Printed:
    """As people read it: one line per member; verdicts only where all was run."""
    lines: dict[str, dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(row["member"], {"method": row["title"]})
        head = row["column"]
        line[f"{head}: paper"] = _text(row["published"])
        line[f"{head}: ours"] = _own_text(row)
        ratio = row.get("ratio", math.nan)
        said = "-" if math.isnan(ratio) else f"{ratio:.2f}"
        if whole and row.get("verdict"):
            said = f"{said}, {row['verdict']}".removeprefix("-, ")
        line["ratio" if len(part.columns) == 1 else f"{head}: ratio"] = said
    return Printed(list(lines.values()), notes=[*notes, *summary(rows, whole)])


def _ours(
    frame: "pd.DataFrame", column: Column, part: Part, ran: int
) -> dict[str, Any]:
    runs = summaries.by_seed(frame).values()
    values = np.array([_value(rows, column, part, ran) for rows in runs])
    reached = ~np.isnan(values)
    # A mean of those that reached it says nothing of the others.
    whole = reached.all()
    here = max(int(rows["round"].max()) for rows in runs)
    counts = column.count if column.target is not None else ""
    spent = [
        here if counts == _ROUNDS else _count(rows.iloc[-1], column) for rows in runs
    ]
    return {
        "ours": values.mean() if whole else math.nan,
        "spread": spread(values) if whole and len(values) > 1 else math.nan,
        "seeds": len(values),
        "reached": int(reached.sum()),
        "at_least": np.where(reached, values, spent).mean() if counts else math.nan,
        "rounds": here,
        "counts": counts,
        "diverged": summaries.diverged_at(frame),
    }


def _value(rows: "pd.DataFrame", column: Column, part: Part, ran: int) -> float:
    """Of one seed, in the unit of the paper; NaN: not reached, or lost."""
    if column.metric not in rows:
        return math.nan
    scale = 100 if in_percent(column.metric) else 1
    if column.target is not None:
        at = summaries.rounds_to_target(rows, column.target, column.metric)
        if math.isnan(at):
            return at
        return _count(rows[rows["round"] == at].iloc[0], column)
    if column.after is not None:
        last = round_of(column, part, ran)
        known = rows[rows["round"] <= last].dropna(subset=[column.metric])
        lost = summaries.diverged_at(rows)
        if known.empty or rows["round"].max() < last or (lost and lost <= last):
            return math.nan
        return scale * float(known[column.metric].iloc[-1])
    assert column.window is not None
    return summaries.deviation(rows, column.metric, column.window)


def _count(row: "pd.Series", column: Column) -> float:
    """What was spent up to a row, in rounds or Mbit."""
    if column.count == _ROUNDS:
        return float(row["round"])
    return float(row["bits_up"] + row["bits_down"]) / 1e6


def _ratio(row: dict[str, Any], published: Value) -> float:
    number = isinstance(published, int | float)
    return row["ours"] / published if number else math.nan


def _text(value: Value) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value}"


def _own_text(row: dict[str, Any]) -> str:
    if "ours" not in row:
        return ""
    if row["counts"] == _ROUNDS:
        return rounds_text(
            row["reached"], row["seeds"], row["ours"], row["spread"],
            row["at_least"], row["rounds"],
        )  # fmt: skip
    if math.isnan(row["ours"]):
        lost = row["diverged"]
        if row["counts"] and (row["reached"] or lost is None):
            return _bound_text(row)
        return "-" if lost is None else f"diverged (round {lost})"
    away = "" if math.isnan(row["spread"]) else f" ± {row['spread']:.2f}"
    return f"{row['ours']:.2f}{away}"


def _bound_text(row: dict[str, Any]) -> str:
    """Where not all seeds reached a target: what they spent at least."""
    if row["reached"] == 0:
        return f"{row['at_least']:.2f}+"
    share = f"({row['reached']}/{row['seeds']})"
    return f"\N{GREATER-THAN OR EQUAL TO} {row['at_least']:.2f} {share}"
