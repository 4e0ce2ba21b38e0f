"""Runs that two cards have are run once."""

import dataclasses

import pytest

from fedjax_mos.lab import folders
from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import Column, card_named
from fedjax_mos.lab.papers.refine import AllReached
from fedjax_mos.lab.papers.shared import take_over
from tests.lab.tiny import TINY


@pytest.fixture
def first(tmp_path):
    """A member that another card has finished."""
    folder = tmp_path / "table" / "part" / "member"
    (folder / "checkpoints").mkdir(parents=True)
    (tmp_path / "table" / "card.md").touch()
    data = folders.data_hash(TINY)
    stored = folders.config(TINY, "run", complete=True, seeds=2, data=data)
    folders.write_json(folder / folders.CONFIG, stored)
    (folder / "history.csv").touch()
    return folder


def test_what_another_card_has_is_copied(tmp_path, first):
    """A run that is done a second time, or half of one that is copied."""
    own = tmp_path / "figure" / "run" / "other"
    own.parent.mkdir(parents=True)
    assert take_over(own, TINY, 2) == first
    assert sorted(p.name for p in own.iterdir()) == ["config.json", "history.csv"]
    assert take_over(own, TINY, 2) is None  # it is there


def test_a_run_that_ended_at_its_targets_is_not_a_whole_one(tmp_path, first):
    """A figure that shows the beginning of a run only."""
    ended = AllReached((Column(target=0.9),))
    own = tmp_path / "figure" / "run" / "other"
    own.parent.mkdir(parents=True)
    assert take_over(own, TINY, 2, ended) is None
    stored = folders.read_json(first / folders.CONFIG)
    folders.write_json(
        first / folders.CONFIG, stored | {"stop": folders.as_json(ended)}
    )
    assert take_over(own, TINY, 2) is None
    assert take_over(own, TINY, 2, ended) == first


@pytest.mark.parametrize("change", ["seeds", "data", "number", "page"])
def test_another_run_is_not_taken(tmp_path, first, change):
    """Numbers of other seeds, data or options under this card's name."""
    stored = folders.read_json(first / folders.CONFIG)
    if change == "data":
        folders.write_json(first / folders.CONFIG, stored | {"data": "another"})
    if change == "page":  # somebody's folder, no card's
        (tmp_path / "table" / "card.md").unlink()
    other = {"lr": 0.7} if change == "number" else {}
    own = tmp_path / "figure" / "run" / "member"
    mine = dataclasses.replace(TINY, options=other)
    assert take_over(own, mine, 3 if change == "seeds" else 2) is None
    assert not own.exists()


def test_figures_show_the_runs_of_tables():
    """Cards that drift apart, so that a figure costs what its table has cost."""

    def made(card):
        return {p.name: experiments(p) for p in card_named(card).parts}

    assert made("fedcm-table1") == made("fedcm-fig2")
    assert made("fedcm-table2") == made("fedcm-fig3")
    assert made("fedcm-table3") == made("fedcm-fig1")
    whole = made("nla-fig17")["run"]
    assert made("nla-fig1")["run"].items() <= whole.items()
