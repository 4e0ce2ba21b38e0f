"""Every card can be read, names what there is, and has a value for every column."""

import dataclasses
import re
from functools import cache

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.citation import references
from fedjax_mos.lab.papers.build import experiments, rounds_of
from fedjax_mos.lab.papers.card import SCALES, Column, _card, all_cards, card_named
from fedjax_mos.lab.papers.listing import listing, rounds

from .generated import TRAIN, sizes

NAMES = [
    "fedmos-table1",
    *(f"fedmos-fig{n}" for n in range(2, 6)),
    *(f"fedcm-table{n}" for n in range(1, 4)),
    *(f"fedcm-fig{n}" for n in range(1, 4)),
    *(f"fedacg-table{n}" for n in "ABC"),
    *(f"fedacg-fig{n}" for n in "ABCDEF"),
    *(f"nla-fig{n}" for n in range(1, 22)),
    "nla-readings",
]


def test_every_table_and_figure_has_a_card():
    """A table or figure of a paper that cannot be repeated."""
    assert set(NAMES) == set(all_cards())
    assert all(card.cite in references() for card in all_cards().values())


@cache
def every(scale):
    """(card, part) -> its experiments."""
    return {
        (card.name, part.name): experiments(part, scale)
        for card in all_cards().values()
        for part in card.parts
    }


@pytest.mark.parametrize("scale", SCALES)
def test_cards_name_what_there_is(scale):
    """A method, option, partition or model that no longer goes by this name."""
    for card in all_cards().values():
        for part in card.parts:
            for member, one in every(scale)[card.name, part.name].items():
                assert one.rounds == rounds_of(part, scale), (card.name, member)
                assert isinstance(one.dataset, str) and one.clients
                assert one.eval_every < one.rounds


def test_partitions_cut_as_many_examples_as_there_really_are():
    """A partition that runs out of labels, which only the real number of them shows."""
    ranges = {"fedmos_mnist": (10, 50), "fedmos_cifar": (20, 200)}
    ranges["fedmos_cifar_overlapping"] = (20, 200)
    seen = set()
    for members in every("paper").values():
        for one in members.values():
            which = (one.dataset, one.partition, one.clients, one.parts["partition"])
            if repr(which) in seen:
                continue
            seen.add(repr(which))
            found, total = sizes(one), TRAIN[one.dataset]
            alike = (total // one.clients,) * 2
            assert len(found) == one.clients, which
            expected = ranges.get(one.partition, alike)
            assert (min(found), max(found)) == expected, which
    assert len(seen) > 20


def test_small_keeps_the_protocol():
    """A small card whose partition, local work or hyperparameters are others."""
    free = {"model", "rounds", "options", "eval_every"}
    shape = {"hidden", "stem", "model.dropout"}  # of networks
    for where, paper in every("paper").items():
        for name, one in paper.items():
            other = every("small")[where][name]
            for field in dataclasses.fields(one):
                if field.name not in free:
                    same = getattr(one, field.name) == getattr(other, field.name)
                    assert same, (where, name, field.name)
            numbers = [
                {n: v for n, v in e.options.items() if n not in shape}
                for e in (one, other)
            ]
            assert numbers[0] == numbers[1], (where, name)
            assert other.rounds < one.rounds


def test_published_values_are_plausible():
    """A digit that was lost: accuracies in percent, rounds within the run."""
    for card in all_cards().values():
        for part in card.parts:
            for name, values in part.published.items():
                for column, value in zip(part.columns, values, strict=True):
                    if isinstance(value, str):
                        assert re.fullmatch(r"|\d+\+", value), (card.name, name)
                    elif column.target is not None:
                        assert 1 <= value <= part.settings["rounds"]
                    elif column.after is not None:
                        assert 10 < value < 100, (card.name, name)
                accuracies = [
                    v
                    for c, v in zip(part.columns, values, strict=True)
                    if c.after is not None and isinstance(v, float)
                ]
                assert accuracies == sorted(accuracies), (card.name, part.name, name)


def test_published_values_are_those_printed():
    """Numbers that slipped by a row or a column, seen at both ends of the tables."""

    def value(card, part, member):
        parts = {one.name: one for one in card_named(card).parts}
        return parts[part].published[member]

    assert value("fedmos-table1", "mnist", "stem-ucs") == (244, 255)
    assert value("fedmos-table1", "cifar10", "fedmos-acs") == (76, 76)
    assert value("fedcm-table1", "II-dirichlet", "feddyn") == (82.25,)
    assert value("fedcm-table2", "I-iid", "fedcm-005") == (58.16,)
    assert value("fedcm-table3", "I-dirichlet", "alpha-1") == (82.14,)
    last = value("fedacg-tableC", "cifar100-large", "fedacg")
    assert last == (41.16, 49.10, 299, 525)
    first = value("fedacg-tableB", "cifar10-moderate", "fedavg")
    assert first == (80.56, 85.97, 520, "1000+")
    assert value("fedacg-tableB", "cifar100-large", "fedcm") == (
        26.82,
        39.78,
        714,
        "1000+",
    )
    other = value("fedacg-tableA", "tiny_imagenet-large", "feddecorr-acg")
    assert other == (29.24, 34.71, 290, 540)


def test_members_keep_their_own_numbers():
    """A shared setting that overwrites what a paper says of one method."""
    card = {part.name: part for part in card_named("fedcm-table2").parts}
    made = experiments(card["II-iid"])
    assert made["fedcm-100-II"].epochs == 5 and made["fedavg-100"].epochs == 2
    assert made["fedcm-100-II"].batch_size == 50 and made["fedavg-100"].batch_size == 20
    assert made["feddyn-100-II"].options["dyn"] == 0.001
    assert made["feddyn-100-II"].options["round_decay"] == 0.999
    assert made["fedavg-100"].options["round_decay"] == 0.998
    assert made["fedavg-100"].options["weight_decay"] == 0.001


def test_the_list_says_what_everything_costs():
    """A card that nobody finds, or whose cost is another."""
    text = listing()
    assert all(re.search(rf"^{name} ", text, re.M) for name in NAMES)
    assert rounds(card_named("fedmos-fig2"), "paper") == 2 * 4 * 500
    lines = {line.split()[0]: line for line in text.splitlines()}
    assert "4000 rounds, 21 min" in lines["fedmos-fig2"]
    # A card that is like another has a cost of its own.
    assert "min" in lines["nla-fig5"] and not re.search(
        r"\dmin| min", lines["nla-fig6"]
    )


def test_mistakes_in_cards_are_told():
    """A typing error in a file that silently leaves something out."""
    file = {
        "cite": "c",
        "settings": {"s": {"rounds": 5}},
        "members": {"m": {"algorithm": "fedavg"}},
    }
    part = {"name": "p", "members": ["m"], "columns": [{"after": 5}]}
    card = {"source": "s", "title": "t", "settings": ["s"], "parts": [part]}
    assert _card("x", card, file).parts[0].members[0].name == "m"
    for wrong, what in (
        ({"published": {"m": [1, 2]}}, "needs 1 values: got 2"),
        ({"published": {"other": [1]}}, "no member"),
        ({"publised": {}}, "unknown fields publised"),
        ({"columns": [{"after": 5, "target": 0.5}]}, "one of target, after"),
        ({"until_targets": True}, "a target in every column"),
    ):
        with pytest.raises(ValueError, match=what):
            _card("x", card | {"parts": [part | wrong]}, file)
    with pytest.raises(ValueError, match="unknown fields round"):
        _card("x", card, file | {"settings": {"s": {"round": 5}}})
    with pytest.raises(ValueError, match="did you mean fedmos-table1"):
        card_named("fedmos-table")


def test_titles_say_what_is_counted():
    """A column that could be taken for another."""
    assert Column(target=0.95).title == "rounds to 95 % test accuracy"
    assert Column(target=0.9, count="Mbit").title == "Mbit to 90 % test accuracy"
    assert Column(after=500).title == "test accuracy in % after round 500"
    assert "over 10" in Column(window=10).title


@pytest.mark.parametrize(
    "given, message",
    [
        ({"name": "nla-fig99"}, "name must be one of"),
        ({"scale": "large"}, "scale must be one of paper, small: got 'large'"),
        ({"parts": ["svhn"]}, "parts must be some of run: got svhn"),
        ({"members": ["fedsgd"]}, "members must be some of fedavg, .*: got fedsgd"),
        ({"seeds": 0}, "seeds must be at least 1: got 0"),
        ({"rounds": 0}, "rounds must be at least 1: got 0"),
    ],
)
def test_arguments_are_checked(given, message, tmp_path):
    """A wrong argument that is told after minutes, or never."""
    with pytest.raises(ValueError, match=message):
        fm.reproduce(**{"name": "nla-fig5", "out": tmp_path / "out"} | given)
    assert not (tmp_path / "out").exists()


def test_missing_data_are_one_line(tmp_path, monkeypatch):
    """Pages of text, or a traceback, where a command would help."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FEDJAX_MOS_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as error:
        fm.reproduce("fedacg-figD", "small", out=tmp_path / "out")
    text = str(error.value)
    assert "fedjax-mos data get tiny_imagenet" in text and "\n" not in text
    assert not (tmp_path / "out").exists()


def test_values_stay_within_the_frame():
    """No card asks for a column that a run does not have."""
    known = {"test_accuracy", "test_loss", "local_fired_up"}
    for card in all_cards().values():
        for part in card.parts:
            own = {*part.settings.get("diagnostics", ())}
            own |= {"train_loss"} if part.settings.get("eval_train", True) else set()
            own |= (
                {"train_dropout_loss"} if part.settings.get("dropout_loss") else set()
            )
            shown = {p.metric for p in card.panels if p.part == part.name}
            shown |= {column.metric for column in part.columns}
            assert shown <= known | own, part.name
        assert np.all([card.x in ("round", "bits"), card.smooth >= 1])
