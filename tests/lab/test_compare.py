"""Experiments side by side: members may differ in anything."""

import dataclasses

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog, folders
from fedjax_mos.lab.common_lr import unequal_lr
from fedjax_mos.lab.comparison_folder import is_done
from fedjax_mos.lab.members import members_of
from fedjax_mos.lab.setting import Setting
from tests.lab.tiny import TINY


@pytest.mark.thorough
def test_members_may_differ_in_anything():
    """Epochs, batch sizes, decays and rounds are each member's own."""
    members = {
        "usual": TINY,
        "epochs": dataclasses.replace(TINY, steps=None, epochs=1, batch_size=8),
        "decay": dataclasses.replace(TINY, options={"round_decay": 0.01}, rounds=3),
    }
    found = fm.compare(members, 1, progress=False)
    assert found.complete and list(found.members) == list(members)
    for name, result in found.members.items():
        assert result.experiment == members[name] and result.name == name
        assert result.frame["round"].tolist() == [*range(1, members[name].rounds + 1)]
        assert result.frame["seed"].unique().tolist() == [0]
    usual, epochs, decay = (one.frame["train_loss"] for one in found.members.values())
    # The first round has the same batches and step size; a decayed one hardly moves.
    assert usual[0] == decay[0] and usual[0] != epochs[0]
    moves = abs(np.diff(usual))[0], *abs(np.diff(decay))
    assert moves[1] < 0.2 * moves[0] and moves[2] < 0.1 * moves[1]
    table = found.table(0.5)
    assert table.index.tolist() == list(members)
    assert found.frame["method"].value_counts().to_dict() == {
        "usual": 2,
        "epochs": 2,
        "decay": 3,
    }


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "at least one experiment"),
        ({"a": TINY, "b": "fedavg"}, "members must be experiments: b is a str"),
        ({"a": TINY.build}, "a is a method"),
        ([TINY, TINY], "members must be a mapping of names to exp.*: got a list"),
        (TINY, "members must be a mapping of names to exp.*: got a Experiment"),
        ({"a/b": TINY, "a-b": TINY}, "a/b and a-b"),
    ],
    ids=["none", "name", "function", "list", "one", "folder"],
)
def test_wrong_members_are_refused(members, message, tmp_path, monkeypatch):
    """What is no experiment is refused by name, before any member runs."""
    monkeypatch.setattr(fm.Experiment, "run", None)
    with pytest.raises(ValueError, match=message):
        fm.compare(members, out=tmp_path / "out", progress=False)
    with pytest.raises(ValueError, match="seeds must be at least 1: got 0"):
        fm.compare({"a": TINY}, 0)


def test_done_is_the_very_member(tmp_path):
    """A finished member is taken for one with other numbers."""
    stored = folders.config(TINY, "run", complete=True)
    folders.write_json(tmp_path / folders.CONFIG, stored)
    assert is_done(tmp_path, TINY)
    for change in ({"options": {"lr": 0.3}}, {"rounds": 3}, {"sampler": "md"}):
        assert not is_done(tmp_path, dataclasses.replace(TINY, **change)), change
    folders.write_json(tmp_path / folders.CONFIG, stored | {"complete": False})
    assert not is_done(tmp_path, TINY)


def test_members_by_name():
    """Names are ALGORITHM/SAMPLER; one that is given twice is refused."""
    setting = Setting(clients=6, cohort=2)
    given = {"lr": 0.5, "fedprox.prox": 0.1, "weights": "mean"}
    made = members_of(setting, ["fedavg", "fedprox/md"], given)
    assert list(made) == ["fedavg/ucs", "fedprox/md"]
    assert made["fedavg/ucs"].options == {"lr": 0.5, "weights": "mean"}
    assert made["fedprox/md"].options == {"lr": 0.5, "fedprox.prox": 0.1}
    assert {one.clients for one in made.values()} == {6}
    with pytest.raises(ValueError, match="the member fedavg/ucs is given twice"):
        members_of(setting, ["fedavg", "fedavg/ucs"], {})
    with pytest.raises(ValueError, match="no option 'storm'"):
        members_of(setting, ["fedavg"], {"storm": 0.1})


@pytest.mark.thorough
def test_members_with_other_metrics(tmp_path):
    """Each member is shown by its own metric; none is drawn or scaled as another."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    classes = fm.arrays(x[:40], np.arange(40) % 2, x[40:], np.arange(20) % 2)
    values = fm.arrays(x[:40], x[:40, 0], x[40:], x[40:, 0])
    shared = {"model": "logistic", "clients": 4, "cohort": 2, "rounds": 2}
    shared |= {"algorithm": "fedavg", "sampler": "ucs"}
    members = {
        "labels": fm.Experiment(dataset=classes, **shared),
        "numbers": fm.Experiment(dataset=values, loss="squared_error", **shared),
    }
    found = fm.compare(members, seeds=1, out=tmp_path, progress=False)
    text = found.text().splitlines()
    assert "% (test_accuracy)" in text[2] and "(test_loss)" in text[3]
    assert "%" not in text[3]
    again = fm.read(tmp_path)
    assert again.text() == found.text()  # targets come back too
    assert len(found.curves().axes) == 3


def test_members_with_options_of_their_own():
    """ALGORITHM/SAMPLER:OPTION=VALUE,...: a member's own go before what all share."""
    setting = Setting(clients=6, cohort=2)
    names = ["fedavg", "fedavg:lr=0.1", "fedavg/md:lr=0.2,server_lr=2"]
    made = members_of(setting, names, {"lr": 0.5})
    assert list(made) == [
        "fedavg/ucs",
        "fedavg/ucs:lr=0.1",
        "fedavg/md:lr=0.2,server_lr=2",
    ]
    numbers = [one.parts["algorithm"].spec.options for one in made.values()]
    assert [float(n["lr"]) for n in numbers] == [0.5, 0.1, 0.2]
    assert float(numbers[2]["server_lr"]) == 2
    assert [one.sampler for one in made.values()] == ["ucs", "ucs", "md"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedavg:lr", "fedavg/ucs:lr takes name=value: got 'lr'"),
        ("fedavg:lr=0.1,", "takes name=value: got ''"),
        ("fedavg:storm=0.1", "no option 'storm'"),
        ("fedavg:lr=fast", "lr"),
        ("fedavg/ucs:lr=0.1", "the member fedavg/ucs:lr=0.1 is given twice"),
    ],
)
def test_wrong_options_of_a_member_are_refused(name, message):
    """The message names the member or its option."""
    with pytest.raises(ValueError, match=message):
        members_of(Setting(), ["fedavg:lr=0.1", name], {})


def test_deviations_are_means_over_seeds():
    """Each member's own, from its own moving average, in squared points."""
    result = TINY.run(2, progress=False)
    values = [
        run["test_accuracy"].to_numpy() for _, run in result.frame.groupby("seed")
    ]
    # Two rounds: the first is its own average, the second is half the step away.
    expected = np.mean([1e4 * ((v[1] - v[0]) / 2) ** 2 / 2 for v in values])
    found = fm.Comparison({"a": result}).deviations(2)
    assert found["a"] == pytest.approx(expected) and expected > 0


def rates(dataset, given=None, names=("fedavg", "fedprox", "fedmos:lr=0.3", "lag")):
    members = members_of(Setting(dataset=dataset), names, given or {})
    return [one.parts["algorithm"].spec.hp["lr"] for one in members.values()]


def test_members_without_an_lr_share_one():
    """Papers' defaults differ by ten times, which would decide a comparison."""
    assert rates("mnist") == [0.01, 0.01, 0.3, 0.001]  # lag moves by a sum
    assert rates("cifar100")[:3] == [0.1, 0.1, 0.3]
    assert rates("mnist", {"lr": "0.2"}) == [0.2, 0.2, 0.3, 0.2]
    assert rates("mnist", {"fedprox.lr": "0.2"})[:2] == [0.01, 0.2]
    tuned = catalog.ALGORITHMS["fedprox"].tuned["digits"]["lr"]
    assert rates("digits")[1] == tuned != 0.01


def test_unequal_step_sizes_are_said(capsys):
    """In Python members keep the papers' step sizes: ten times apart, and no word."""
    rng = np.random.default_rng(0)
    data = fm.arrays(*(rng.normal(size=(20, 3)), np.arange(20) % 2) * 2)
    base = fm.Experiment(dataset=data, rounds=1, clients=3, cohort=1, steps=1)
    methods = ("fedavg", "scaffold")
    members = {n: dataclasses.replace(base, algorithm=n) for n in methods}
    assert "fedavg 0.01, scaffold 0.1" in unequal_lr(members)
    fm.compare(members, seeds=1)
    assert unequal_lr(members) in capsys.readouterr().err
    same = {
        n: dataclasses.replace(one, options={"lr": 0.1}) for n, one in members.items()
    }
    assert not unequal_lr(same)
    digits = {
        n: dataclasses.replace(one, dataset="digits") for n, one in members.items()
    }
    assert not unequal_lr(digits)
