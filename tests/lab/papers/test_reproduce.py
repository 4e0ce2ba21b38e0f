"""Cards from the command to the page, in pieces; every one of them for two rounds."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedjax_mos as fm
from fedjax_mos.cli import main
from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import Column, Part, all_cards
from fedjax_mos.lab.papers.reproduce import _finished
from fedjax_mos.lab.papers.reproduced import Reproduced
from fedjax_mos.lab.papers.table import printed, rows_of
from fedjax_mos.lab.pictures.papers import bars

from .generated import kind, noise, tiny


def frame(values, metric="test_accuracy", every=5):
    """Two seeds, evaluated every few rounds; `values` by seed."""
    rows = [
        {"seed": seed, "round": every * (i + 1), metric: value, "diverged": False,
         "bits_up": 1e6 * (i + 1), "bits_down": 2e6 * (i + 1), "seconds": 1.0}
        for seed, own in enumerate(values)
        for i, value in enumerate(own)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def part(columns, published):
    """One part with one member, of a paper that ran 20 rounds."""
    from fedjax_mos.lab.papers.card import Member

    members = (Member("m", "M", {}),)
    return Part("p", "P", {"rounds": 20}, {}, members, columns, {"m": published})


def test_published_beside_ours():
    """A mean, spread, ratio or number of bits that is not that of the seeds."""
    columns = (
        Column(target=0.5),
        Column(target=0.5, count="Mbit"),
        Column(after=20),
        Column(target=0.7),
        Column(target=0.99),
    )
    made = part(columns, (10, "", 60.0, 20, "20+"))
    ours = {"m": frame([[0.3, 0.5, 0.6, 0.7], [0.1, 0.2, 0.55, 0.6]])}
    rows = rows_of(made, ours, 20)
    assert [row["ours"] for row in rows[:3]] == pytest.approx([12.5, 7.5, 65.0])
    assert rows[0]["spread"] == pytest.approx(np.std([10, 15], ddof=1))
    assert rows[2]["spread"] == pytest.approx(np.std([70, 60], ddof=1))
    assert [row["ratio"] for row in rows[:3:2]] == pytest.approx([1.25, 65 / 60])
    line = printed(made, rows, [], False).rows[0]
    texts = [line[f"{column.title}: ours"] for column in columns]
    assert texts == ["12.5 ± 3.5", "7.50 ± 2.12", "65.00 ± 7.07", "≥ 20.0 (1/2)", "20+"]
    # Where not all seeds reach a target there is no ratio.
    assert line[f"{columns[3].title}: ratio"] == "-"
    assert line[f"{columns[4].title}: paper"] == "20+"


def test_bounds_are_in_the_unit_of_their_column():
    """Rounds under the title of bits, or the mean of the seeds that were lucky."""
    columns = (
        Column(target=0.7),
        Column(target=0.7, count="Mbit"),
        Column(target=0.9, count="Mbit"),
        Column(after=20),
        Column(window=2),
    )
    made = part(columns, ("",) * 5)
    ours = {"m": frame([[0.3, 0.7, 0.6, 0.7], [0.1, 0.2, 0.55, 0.6]])}
    rows = rows_of(made, ours, 20)
    bounds = [row["at_least"] for row in rows]
    # Reached by one seed after 10 rounds and 6 Mbit; the other has spent 20 and 12.
    np.testing.assert_allclose(bounds, [15, 9, 12, np.nan, np.nan])
    assert [row["reached"] for row in rows] == [1, 1, 0, 2, 2]
    assert np.isnan([row[n] for row in rows[:3] for n in ("ours", "spread")]).all()
    line = printed(made, rows, [], False).rows[0]
    texts = [line[f"{column.title}: ours"] for column in columns[:3]]
    assert texts == ["≥ 15.0 (1/2)", "≥ 9.00 (1/2)", "12.00+"]
    # In the picture they are open bars beside those that were reached.
    axes = bars({"P": rows}, "about").axes
    assert len(axes) == 5
    heights = [axis.containers[-1].patches[0].get_height() for axis in axes[:3]]
    assert heights == [15, 9, 12]
    named = [[t.get_text() for t in a.get_legend().get_texts()] for a in axes]
    assert [("ours, at least" in names) for names in named] == [True] * 3 + [False] * 2


def test_short_runs_are_read_earlier_and_say_so():
    """The accuracy of round 10 under the title of round 20."""
    made = part((Column(after=20),), (60.0,))
    rows = rows_of(made, {"m": frame([[0.3, 0.5]])}, 10)
    assert rows[0]["ours"] == pytest.approx(50.0)
    assert rows[0]["column"].endswith("after round 20 (here 10)")


@pytest.mark.thorough
def test_a_small_card_from_command_to_page(tmp_path, monkeypatch, capsys):
    """A card that runs and leaves no page, loses members of earlier commands, or runs
    finished ones again."""
    x_train, y_train, x_test, y_test = noise("mnist", 1000)
    np.savez(
        tmp_path / "mnist.npz",
        x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test,
    )  # fmt: skip
    out = tmp_path / "out"
    words = [
        "reproduce", "nla-fig5", "--scale", "small", "--rounds", "2", "--seeds", "2",
        "--data-dir", str(tmp_path), "--out", str(out), "--members",
    ]  # fmt: skip
    monkeypatch.setattr("fedjax_mos.machine.use_all_cores", lambda: None)
    main([*words, "fedavg", "fedams"])
    first = (out / "run" / "fedavg" / "history.csv").stat().st_mtime_ns
    capsys.readouterr()
    main([*words, "fedavg", "fednlaa"])
    shown = capsys.readouterr().out
    assert (out / "run" / "fedavg" / "history.csv").stat().st_mtime_ns == first
    assert "Scale: small, shortened, 2 rounds" in shown and "results in" in shown
    page = (out / "card.md").read_text()
    for text in ("FedNLAA", "small", "Provenance", "commit: ", "wall time", "Assumed"):
        assert text in page
    # Each member under the command that ran it, not the last one.
    assert re.search(r"--members fedavg fedams` \(run/fedavg, run/fedams\)", page)
    assert re.search(r"--members fedavg fednlaa` \(run/fednlaa\)", page)
    table = pd.read_csv(out / "card.csv").set_index(["member", "column"])
    ours = table["ours"].xs("test accuracy in % after round 500 (here 2)", level=1)
    assert ours[["fedavg", "fedams", "fednlaa"]].notna().all() and ours.isna().any()
    assert set(table["scale"]) == {"small, shortened"}
    assert (out / "card.png").stat().st_size > 10_000
    result = fm.read(out / "run" / "fedavg")
    last = result.frame[result.frame["round"] == 2]["test_accuracy"]
    assert ours["fedavg"] == pytest.approx(100 * last.mean())
    (run,) = all_cards()["nla-fig5"].parts
    made = experiments(run, "small", 2, tmp_path)
    assert {*_finished(out / "run", run, made)} == {"fedavg", "fedams", "fednlaa"}
    with monkeypatch.context() as other:
        other.setattr("fedjax_mos.lab.folders.data_hash", lambda one: "of other data")
        assert not _finished(out / "run", run, made)
    # A card beside this one takes over what it has in common with it.
    words[words.index(str(out))] = str(tmp_path / "beside")
    main([*words, "fedavg"])
    assert f"fedavg is that of {out / 'run' / 'fedavg'}" in capsys.readouterr().err
    assert "--members fedavg fedams`" in (tmp_path / "beside" / "card.md").read_text()
    words[words.index(str(tmp_path / "beside"))] = str(out)
    stored = (out / "run" / "fedavg" / "config.json").read_text()
    (out / "run" / "fedavg" / "config.json").write_text(
        stored.replace('"lr": 0.01', '"lr": 0.02')
    )
    main([*words, "fednlaa"])
    assert "run/fedavg is not what the card has now" in capsys.readouterr().err
    table = pd.read_csv(out / "card.csv").set_index("member")
    assert table["ours"]["fedavg"].isna().all()
    with pytest.raises(SystemExit) as error:
        main([*words[:6], "3", *words[7:], "fedavg"])  # other seeds in the same folder
    assert error.value.code == 2


@pytest.mark.parametrize("name, smaller", [("fedmos-fig2", False), ("nla-fig5", True)])
def test_small_says_what_is_smaller(name, smaller):
    """A page that tells of a smaller network where rounds are fewer only."""
    card = all_cards()[name]
    results = {part.name: {} for part in card.parts}
    found = Reproduced(card, "small", None, results, results)
    assert ("Smaller network" in found._scale_text) == smaller
    assert "ewer rounds: not the paper's numbers" in found._scale_text


SEEN: set = set()


@pytest.mark.slow
@pytest.mark.parametrize("name", all_cards())
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_cards_run_two_rounds(scale, name):
    """A method that does not take its card's model, sampler or numbers.

    Every card runs one member of each part; at paper scale also those whose program
    (algorithm, model, sampler, channels) no card before it has run.
    """
    card = all_cards()[name]
    found = Reproduced(card, scale, 2, {}, {})
    for one in card.parts:
        made = experiments(one, scale)
        fresh = [n for n, e in made.items() if scale == "paper" and kind(e) not in SEEN]
        results = {}
        for member in fresh or [next(iter(made))]:
            SEEN.add(kind(made[member]))
            results[member] = tiny(made[member]).run(1, progress=False)
            last = results[member].frame.iloc[-1]
            assert np.isfinite(last["local_loss"]) and 0 <= last["test_accuracy"] <= 1
        found.results[one.name] = results
        found.frames[one.name] = {n: r.by_seed for n, r in results.items()}
    assert scale in found.markdown() and isinstance(found.figure(), Figure)
    assert len(found.frame) == sum(len(p.members) * len(p.columns) for p in card.parts)
