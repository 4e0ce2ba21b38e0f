"""Searches: survivors equal their own runs, programs are few, nothing is lost."""

import dataclasses
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.run_folder import repeated
from fedjax_mos.lab.searches.search import goal_of
from tests.lab.tiny import TINY

BASE = dataclasses.replace(TINY, rounds=9, eval_every=2)
RATES = [0.02, 0.1, 0.5, 1.0]
RUN = Assembled.run


def search(experiment=BASE, *args, **options):
    given = {"eta": 2, "seeds": 2, "width": 4, "progress": False}
    return fm.search(experiment, *args, **(given | options))


@cache
def found():
    """Four rates, two seeds, three rungs."""
    return search(lr=RATES, rungs=3)


def own_run(configuration, **changes):
    """The same configuration as an experiment of its own."""
    one = dataclasses.replace(BASE, options={"lr": RATES[configuration]}, **changes)
    return one.run(2, progress=False).frame


class Killed(BaseException):
    """As if the process had ended."""


@pytest.fixture
def runs(monkeypatch):
    """Widths of the pieces that are run; the one with this number never ends."""
    widths, deadly = [], []

    def noted(made, state, key, *args, **options):
        widths.append(len(key))
        if len(widths) in deadly:
            raise Killed
        return RUN(made, state, key, *args, **options)

    monkeypatch.setattr(Assembled, "run", noted)
    return widths, deadly


# ---- what is run ---------------------------------------------------------------------


def test_the_best_go_on():
    """The wrong half goes on, or seeds are ranked apart."""
    rungs = found().rungs
    assert rungs.groupby("rung").size().tolist() == [4, 2, 1]
    assert rungs.groupby("rung")["round"].first().tolist() == [3, 5, 9]
    for _, rows in rungs.groupby("rung"):
        ordered = rows.sort_values("value", ascending=False, kind="stable")
        left = set(rungs["configuration"][rungs["rung"] == rows["rung"].iloc[0] + 1])
        assert set(ordered["configuration"][: len(left)]) == left
        assert set(rows["configuration"][rows["survived"]]) == left
    # Some versions of pandas average float32 as such.
    frame = found().frame.query("round == 3").astype({"valid_accuracy": float})
    ends = frame.groupby("configuration")["valid_accuracy"]
    np.testing.assert_allclose(rungs["value"][:4], ends.mean(), rtol=1e-12)
    assert found().cells().index[0] == rungs["configuration"].iloc[-1]
    assert found().best()["lr"] == found().winner.options["lr"]
    assert found().spent()["rounds"] == 2 * (4 * 3 + 2 * 2 + 1 * 4)


def test_a_survivor_equals_its_own_run():
    """States that are mixed up between rungs, or bits that begin anew at one."""
    number = int(found().cells().index[0])
    mine = found().frame.query(f"configuration == {number}")
    alone = own_run(number)
    at_rungs = {3, 5}  # where only the search evaluates
    both = [n for n in alone if n not in ("seconds", "seed")]
    seen = mine["round"].isin(at_rungs).to_numpy()
    for name in both:
        blank = seen & alone[name].isna().to_numpy()
        np.testing.assert_allclose(
            mine[name][~blank], alone[name][~blank], 1e-5, 1e-6, err_msg=name
        )
    assert mine["valid_accuracy"][seen].notna().all()
    assert (mine.groupby("seed")["seconds"].diff().dropna() > 0).all()


@pytest.mark.thorough
def test_a_survivor_with_rows_and_channels_equals_its_own_run():
    """The same where clients, channels and the server keep something."""
    base = dataclasses.replace(
        BASE, algorithm="scaffold", uplink="compressed", rounds=6, eval_every=1
    )
    mine = search(base, lr=[0.05, 0.1, 0.2], rungs=2)
    number = int(mine.cells().index[0])
    frame = mine.frame[mine.frame["configuration"] == number].reset_index(drop=True)
    alone = mine.winner.run(2, progress=False).frame
    names = [n for n in alone if n != "seconds"]
    pd.testing.assert_frame_equal(frame[names], alone[names], rtol=1e-5)


@pytest.mark.thorough
def test_one_width_is_one_program(programs, runs):
    """Rungs that are compiled one by one although their width is the same."""
    search(lr=RATES, rungs=3)
    assert runs[0] == [4, 4, 4, 4] and programs() == 1


@pytest.mark.thorough
def test_later_rungs_are_narrower(runs, monkeypatch):
    """Copies that cost more than the lanes that they fill up; other numbers."""
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    narrow = search(lr=RATES, rungs=3, width=None)
    assert runs[0] == [8, 4, 2]
    names = [n for n in found().frame if n != "seconds"]
    pd.testing.assert_frame_equal(narrow.frame[names], found().frame[names], rtol=1e-5)


@pytest.mark.thorough
def test_structures_are_ranked_together():
    """A group that keeps its own best although another group's are better."""
    base = dataclasses.replace(BASE, rounds=4, eval_every=1)
    mine = search(base, batch_size=[2, 4], lr=[1e-6, 0.3], seeds=1, rungs=2)
    first = mine.rungs.query("rung == 0").set_index("configuration")
    best = first["value"].sort_values(ascending=False, kind="stable").index[:2]
    assert set(first.index[first["survived"]]) == set(best)
    assert mine.frame.groupby("configuration")["round"].max()[best].tolist() == [4, 4]


@pytest.mark.thorough
def test_the_diverged_leave_first():
    """A run that diverged goes on, or is chosen."""
    base = dataclasses.replace(BASE, options={"weight_decay": 0.1}, rounds=16)
    mine = search(base, lr=[1e6, 1e7, 1e8, 0.1], rungs=2, metric="valid_loss", seeds=1)
    assert mine.rungs["survived"].tolist()[:4] == [False, False, False, True]
    assert len(mine.rungs) == 5 and mine.winner.options["lr"] == 0.1
    lost = mine.frame.groupby("configuration")["diverged"].all()
    assert lost.tolist() == [True, True, True, False]
    wild = search(base, lr=[1e6, 1e7], rungs=2, seeds=1)
    assert wild.complete and wild.winner is None
    with pytest.raises(ValueError, match="diverged"):
        wild.best()


@pytest.mark.thorough
@pytest.mark.parametrize("unit", ["gradients", "bits"])
def test_budgets(unit):
    """A search that costs more than its budget, in the unit that was said."""
    base = dataclasses.replace(BASE, rounds=4, eval_every=4)
    # One step with 4 examples for each of 2 clients; 650 parameters up and down.
    # Four configurations for one round, two for one more, one for two more.
    each = {"gradients": 8, "bits": 2 * 2 * 32 * 650}[unit]
    with pytest.raises(ValueError, match=f"at least {8 * each} {unit}"):
        search(base, lr=RATES, seeds=1, budget=8 * each - 1, unit=unit)
    if unit == "bits":
        mine = search(base, lr=RATES, seeds=1, budget=8 * each, unit=unit)
        assert mine.spent()[["bits_up", "bits_down"]].sum() == 8 * each


def test_test_data_choose_nothing():
    """A winner that was chosen by the examples that its accuracy is reported on."""
    rng = np.random.default_rng(0)
    part = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    base = dataclasses.replace(
        BASE, dataset=fm.arrays(*part, *part), partition="iid", clients=3
    )
    with pytest.raises(ValueError, match="metric must be named.*held_out"):
        search(base, lr=RATES)
    mine = goal_of(dataclasses.replace(base, held_out=0.2), None)
    assert mine == "held_out_accuracy"
    assert goal_of(base, "test_accuracy") == "test_accuracy"


# ---- disk ----------------------------------------------------------------------------


@pytest.mark.parametrize("deadly, ranked", [(2, 0), (3, 4), (4, 6)])
def test_resumed_equals_uninterrupted(tmp_path, runs, deadly, ranked):
    """A kill between rungs costs rungs, or changes a number."""
    widths, when = runs
    found()  # before runs are counted
    widths.clear()
    when.append(deadly)
    with pytest.raises(Killed):
        search(lr=RATES, rungs=3, out=tmp_path)
    half = fm.read(tmp_path)
    assert not half.complete and len(half.rungs) == ranked and half.text()
    when.clear()
    again = search(lr=RATES, rungs=3, out=tmp_path)
    assert len(widths) == 5 and again.complete  # four pieces and the one killed
    assert not list((tmp_path / "states").iterdir())
    for one in (again, fm.read(tmp_path)):
        names = [n for n in found().frame if n != "seconds"]
        pd.testing.assert_frame_equal(one.frame[names], found().frame[names])
        pd.testing.assert_frame_equal(one.rungs, found().rungs)
        assert one.winner == found().winner and one.axes == ("lr",)
    assert search(lr=RATES, rungs=3, out=tmp_path).complete and len(widths) == 5
    with pytest.raises(ValueError, match="same search.*brackets"):
        search(lr=RATES, rungs=2, out=tmp_path)


def test_a_search_from_memory_comes_back(tmp_path):
    """`write` and `fm.read` lose rungs, order or winner."""
    found().write(tmp_path)
    again = fm.read(tmp_path)
    assert type(again) is fm.Search and again.winner == found().winner
    assert repeated(tmp_path / "winner.json")[0] == found().winner
    pd.testing.assert_frame_equal(again.table(), found().table())
    pd.testing.assert_frame_equal(again.rungs, found().rungs)
    assert (tmp_path / "halving.png").read_bytes()[:4] == b"\x89PNG"
    assert "4 to 3, 2 to 5, 1 to 9" in again.text()


BAD = [
    ({"rounds": [2, 4]}, ("rounds", "divides")),
    ({"lr": RATES, "metric": "accuracy"}, ("metric", "valid_accuracy", "'accuracy'")),
    ({"lr": RATES, "unit": "hours"}, ("unit", "gradients", "'hours'")),
    ({"lr": RATES, "width": 0}, ("width", "at least 1", "got 0")),
    ({"lr": RATES, "cohorts": [True]}, ("cohorts",)),
]


@pytest.mark.parametrize(("named", "fragments"), BAD)
def test_bad_input(named, fragments):
    """A mistake that is noticed only after the first rung."""
    with pytest.raises(ValueError) as error:
        search(**named)
    for fragment in fragments:
        assert fragment in str(error.value)


@pytest.mark.thorough
def test_command_line(tmp_path, capsys):
    """A file that the command promises is missing, or the winner that it prints."""
    words = "search --algorithm fedavg --clients 6 --cohort 2 --rounds 4 --steps 1"
    words += " --model logistic --over lr=0.001,0.3 --seeds 1 --eta 2 --out"
    cli.main([*words.split(), str(tmp_path / "found")])
    said = capsys.readouterr().out
    assert "2 to 2, 1 to 4" in said
    assert said.splitlines()[2].startswith("0.3")
    cli.main(["plot", str(tmp_path / "found"), "--kind", "halving"])
    cli.main(["report", str(tmp_path / "found")])
    assert "Search: fedavg" in (tmp_path / "found" / "report.html").read_text()
