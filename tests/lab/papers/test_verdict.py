"""How a number stands to the published one, and how many pairs keep their order."""

import math

import pytest

from fedjax_mos.lab.papers.card import Column
from fedjax_mos.lab.papers.verdict import pairs_in_order, summary, verdict

ROUNDS, ACCURACY = Column(target=0.5), Column(after=100)
LOSS = Column("train_loss", after=100)


def row(published, ours=math.nan, at_least=math.nan, column="c"):
    return {
        "published": published, "ours": ours, "at_least": at_least, "column": column
    }  # fmt: skip


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        (ROUNDS, row(100, 120.0), "within"),
        (ROUNDS, row(100, 80.0), "within"),
        (ROUNDS, row(100, 79.0), "better"),
        (ROUNDS, row(100, 121.0), "worse"),
        (ROUNDS, row(100, at_least=500.0), "worse"),
        (ROUNDS, row(100, at_least=110.0), "open"),
        (ROUNDS, row("1000+", at_least=1000.0), "within"),
        (ROUNDS, row("1000+", at_least=300.0), "open"),
        (ROUNDS, row("1000+", 900.0), "better"),
        (ACCURACY, row(98, 96.5), "within"),
        (ACCURACY, row(98, 95.0), "worse"),
        (ACCURACY, row(60.0, 70.0), "better"),
        (ACCURACY, row(60.0), "worse"),  # diverged
        (LOSS, row(1.0, 1.3), "worse"),
        (LOSS, row(1.0, 0.7), "better"),
        (ROUNDS, row("", 10.0), ""),
        (ROUNDS, {"published": 100}, ""),  # not run
    ],
)
def test_verdicts(column, given, expected):
    """Fewer rounds called worse, or a bound taken for a number."""
    assert verdict(given, column) == expected


def test_pairs_in_their_order():
    """An order that is counted where one of two is unknown, equal or not printed."""
    rows = [
        row(50, 60.0),
        row(80, 55.0),  # ahead of the first: wrong
        row(90, 70.0),
        row("1000+", at_least=300.0),  # behind all that got there
        row(90, at_least=65.0),  # behind 60 and 55; 70 and 300 are unknown
        row("", 1.0),
        {"published": 10, "column": "c"},
    ]
    # Wrong: (50, 80). Right: both 90s behind 50 and 80, and 1000+ behind three.
    assert pairs_in_order(rows) == (7, 8)


def test_only_whole_runs_are_judged():
    """A smaller network's rounds held against the paper's."""
    rows = [
        row(50, 60.0) | {"verdict": "within"},
        row(80, 70.0) | {"verdict": "within"},
    ]
    (judged, order) = summary(rows, True)
    assert judged.startswith(
        "Of 2 published numbers: 2 within, 0 better, 0 worse, 0 open"
    )
    assert order == "c: 1 of 1 pairs in the published order."
    assert summary(rows, False) == [order]
