"""How our numbers stand to the published ones: each by itself, and in their order."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedjax_mos.lab.columns import in_percent
from fedjax_mos.lab.papers.card import Column, Value

WITHIN, POINTS = 0.2, 2.0  # of a published number, and of a published percentage
BETTER, WORSE, SAME, OPEN = "better", "worse", "within", "open"


def verdict(row: Mapping[str, Any], column: Column) -> str:
    """within, better, worse, or open: too few rounds to know; empty without a number.

    Rounds, bits and losses are better when they are fewer.
    """
    if row["published"] == "" or "ours" not in row:
        return ""
    printed, beyond = number(row["published"])
    ours, least = row["ours"], row["at_least"]
    if beyond:  # a target that the paper does not reach in so many rounds
        if math.isnan(ours):
            return SAME if least >= printed else OPEN
        return BETTER
    if math.isnan(ours):
        if math.isnan(least):
            return WORSE  # diverged
        return WORSE if least > (1 + WITHIN) * printed else OPEN
    percent = in_percent(column.metric) and column.target is None
    if abs(ours - printed) <= (POINTS if percent else WITHIN * printed):
        return SAME
    return BETTER if (ours > printed) == percent else WORSE


def number(value: Value) -> tuple[float, bool]:
    """A published value, and whether it is a lower bound ("1000+")."""
    if isinstance(value, str):
        return float(value.removesuffix("+")), value.endswith("+")
    return float(value), False


def pairs_in_order(rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Of one column's pairs of members: how many come in the published order.

    Of pairs that differ in print and of which we know who is ahead.
    """
    known = [r for r in rows if r["published"] != "" and "ours" in r]
    agree = count = 0
    for a, b in itertools.combinations(known, 2):
        printed = _ahead(*(number(r["published"]) for r in (a, b)))
        ours = _ahead(*(_bounded(r) for r in (a, b)))
        if printed and ours:
            count += 1
            agree += printed == ours
    return agree, count


def _bounded(row: Mapping[str, Any]) -> tuple[float, bool]:
    missing = math.isnan(row["ours"])
    return (row["at_least"] if missing else row["ours"]), missing


def _ahead(a: tuple[float, bool], b: tuple[float, bool]) -> int:
    """-1: the first is less, 1: the second is, 0: they are equal or nobody knows."""
    (x, x_beyond), (y, y_beyond) = a, b
    if x < y and not x_beyond:
        return -1
    if y < x and not y_beyond:
        return 1
    # Equal, but one of them is a bound that the other has reached.
    if x == y and x_beyond != y_beyond:
        return 1 if x_beyond else -1
    return 0


def summary(rows: list[dict[str, Any]], whole: bool) -> list[str]:
    """Notes of a part's table; of a shortened or small run only the order counts."""
    notes = []
    found = [row["verdict"] for row in rows if row.get("verdict")]
    if whole and found:
        counts = [f"{found.count(v)} {v}" for v in (SAME, BETTER, WORSE, OPEN)]
        notes.append(
            f"Of {len(found)} published numbers: {', '.join(counts)} (within: by "
            f"{WITHIN:.0%}, a percentage by {POINTS:g} points; open: too few rounds)."
        )
    for column in dict.fromkeys(row["column"] for row in rows):
        agree, count = pairs_in_order(r for r in rows if r["column"] == column)
        if count:
            notes.append(f"{column}: {agree} of {count} pairs in the published order.")
    return notes
