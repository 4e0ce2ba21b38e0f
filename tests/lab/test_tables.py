"""Tables of comparisons, on runs that a reader can check by hand."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedjax_mos as fm
from fedjax_mos.lab import catalog, tables
from tests.lab.tiny import TINY

# Test accuracy by method, seed and round: "slow" takes three times as long, "stuck"
# reaches 0.5 with one seed of three, "never" with none.
RUNS = {
    "base": [[0.3, 0.6, 0.90], [0.5, 0.6, 0.80], [0.2, 0.3, 0.85]],
    "slow": [[0.1, 0.2, 0.70], [0.1, 0.2, 0.72], [0.1, 0.4, 0.65]],
    "stuck": [[0.1, 0.6, 0.30], [0.1, 0.2, 0.30], [0.1, 0.2, 0.45]],
    "never": [[0.1, 0.1, 0.10], [0.1, 0.1, 0.20], [0.1, 0.1, 0.30]],
}


def frame(seeds, metric="test_accuracy"):
    rows = [
        {
            "seed": seed,
            "round": t + 1,
            "train_loss": 1 / (t + 1 + seed),
            metric: value,
            "bits_up": 250_000 * (t + 1),
            "bits_down": 500_000 * (t + 1),
            "seconds": 0.5 * (t + 1),
        }
        for seed, values in enumerate(seeds)
        for t, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


FRAMES = {name: frame(seeds) for name, seeds in RUNS.items()}


def asked(frames=FRAMES, targets=(0.5,), **more):
    return tables.Asked(dict.fromkeys(frames, targets), **more)


def printed(frames=FRAMES, **more):
    wanted = asked(frames, **more)
    return tables.printed(tables.comparison(frames, wanted), wanted)


def cells(frames=FRAMES, **more):
    """The printed texts, by method and column."""
    rows = printed(frames, **more).rows
    return {row["method"]: row for row in rows}


def finals(name):
    return [values[-1] for values in RUNS[name]]


@pytest.mark.parametrize("kind", ["std", "sem", "ci95"])
def test_final_values_are_means_with_the_spread_that_was_asked_for(kind):
    """The mean over seeds; behind ± what scipy says."""
    table = tables.comparison(FRAMES, asked(spread=kind))
    for name in RUNS:
        values = np.array(finals(name))
        factor = {"std": 3**0.5, "sem": 1, "ci95": stats.t.ppf(0.975, 2)}[kind]
        away = factor * stats.sem(values)
        assert table.loc[name, "final"] == pytest.approx(values.mean())
        assert table.loc[name, "final_spread"] == pytest.approx(away)
        text = f"{100 * values.mean():.1f} ± {100 * away:.1f} %"
        assert cells(spread=kind)[name]["final accuracy"] == text


def test_the_notes_say_what_stands_behind_the_sign():
    """The kind of spread and the number of seeds, or that there is one seed."""
    assert "± sample standard deviation over seeds (3 seeds)." in printed().notes
    assert "± standard error of the mean" in printed(spread="sem").notes[0]
    mixed = {"base": FRAMES["base"], "pair": frame(RUNS["slow"][:2])}
    assert "(2 to 3 seeds)" in printed(mixed).notes[0]


def test_one_seed_has_no_spread():
    """No ± where nothing is known of it."""
    one = {name: frame(seeds[:1]) for name, seeds in RUNS.items()}
    made = printed(one, at=(2,), baseline="base")
    assert "±" not in made.text()
    assert "One seed: no spread is known." in made.notes
    row = cells(one, at=(2,), baseline="base")["slow"]
    assert row["final accuracy"] == "70.0 %" and row["after round 2"] == "20.0 %"
    assert row["rounds to 50 %"] == "3.0"
    assert (row["difference"], row["p"]) == ("-20.0", "-")


def test_rounds_to_a_target():
    """All seeds: mean ± std. Some: at least the mean with T. None: T+."""
    table = tables.comparison(FRAMES, asked())
    reached = [table.loc[name, "reached_0.5"] for name in RUNS]
    assert reached == [3, 3, 1, 0]
    assert table.loc["base", "rounds_to_0.5"] == pytest.approx(np.mean([2, 1, 3]))
    assert table.loc["stuck", "rounds_to_0.5"] == 2  # of the seed that reaches it
    assert table.loc["stuck", "at_least_0.5"] == pytest.approx(np.mean([2, 3, 3]))
    assert np.isnan(table.loc["never", "rounds_to_0.5"])
    shown = [row["rounds to 50 %"] for row in cells().values()]
    assert shown == ["2.0 ± 1.0", "3.0 ± 0.0", "≥ 2.7 (1/3)", "3+"]
    assert any(note.startswith("T+: not reached") for note in printed().notes)
    easy = {name: FRAMES[name] for name in ("base", "slow")}
    assert not any(note.startswith("T+") for note in printed(easy).notes)


def test_several_targets_are_columns():
    """Each with its own heading, in percent."""
    row = cells(targets=(0.3, 0.6))["base"]
    assert [c for c in row if c.startswith("rounds")] == [
        "rounds to 30 %",
        "rounds to 60 %",
    ]
    assert row["rounds to 30 %"] == "1.3 ± 0.6"


def test_values_after_rounds():
    """Mean and spread over seeds after the rounds that are asked for."""
    table = tables.comparison(FRAMES, asked(at=(1, 2)))
    first, second = ([v[t] for v in RUNS["base"]] for t in (0, 1))
    row = table.loc["base"]
    assert (row["at_1"], row["at_2"]) == pytest.approx(
        (np.mean(first), np.mean(second))
    )
    assert row["at_1_spread"] == pytest.approx(np.std(first, ddof=1))
    assert cells(at=(2,))["base"]["after round 2"] == "50.0 ± 17.3 %"


def test_the_best_is_bold():
    """The highest accuracy, the lowest loss, every one of several; none of one."""
    assert printed().bold == [(0, "final accuracy")]
    losses = {name: frame(seeds, "test_loss") for name, seeds in RUNS.items()}
    assert printed(losses).bold == [(3, "final test_loss")]
    twice = FRAMES | {"again": FRAMES["base"]}
    assert printed(twice).bold == [(0, "final accuracy"), (4, "final accuracy")]
    assert printed({"base": FRAMES["base"]}).bold == []


def test_speed_ups_only_where_all_seeds_arrive():
    """A factor of survivors means nothing: it is a dash."""
    table = tables.comparison(FRAMES, asked(baseline="base"))
    assert table.loc["slow", "speedup_0.5"] == pytest.approx(2 / 3)
    assert table.loc["base", "speedup_0.5"] == 1
    assert table.loc[["stuck", "never"], "speedup_0.5"].isna().all()
    shown = [row["speed-up at 50 %"] for row in cells(baseline="base").values()]
    assert shown == ["1.00x", "0.67x", "-", "-"]
    lost = [r["speed-up at 50 %"] for r in cells(baseline="stuck").values()]
    assert lost == ["-"] * 4


def test_differences_are_paired_tests():
    """Difference and p of the final values, as scipy finds them."""
    table = tables.comparison(FRAMES, asked(baseline="base"))
    shown = cells(baseline="base")
    for name in ("slow", "stuck", "never"):
        expected = stats.ttest_rel(finals(name), finals("base"))
        mean = np.mean(finals(name)) - np.mean(finals("base"))
        assert table.loc[name, "difference"] == pytest.approx(mean)
        assert table.loc[name, "p_value"] == pytest.approx(expected.pvalue)
        assert shown[name]["difference"] == f"{100 * mean:+.1f}"
        assert shown[name]["p"] == f"{expected.pvalue:.3f}"
    assert (shown["base"]["difference"], shown["base"]["p"]) == ("", "")
    assert "against base, paired t-test" in printed(baseline="base").notes[-1]


def test_small_p_values_are_bounds():
    """0.000 is no probability."""
    far = {
        "base": FRAMES["base"],
        "far": frame([[0.0, 0, v] for v in (0.1, 0, 0.0501)]),
    }
    assert cells(far, baseline="base")["far"]["p"] == "< 0.001"


def test_only_common_seeds_are_paired():
    """Runs of other seeds do not enter the difference; with none there is none."""
    theirs = FRAMES["base"]
    ours = FRAMES["slow"].assign(seed=lambda f: f["seed"] + 1)  # seeds 1 to 3
    table = tables.comparison({"a": ours, "b": theirs}, asked("ab", baseline="b"))
    mean = np.mean(finals("slow")[:2]) - np.mean(finals("base")[1:])
    assert table.loc["a", "difference"] == pytest.approx(mean)
    other = FRAMES["slow"].assign(seed=lambda f: f["seed"] + 10)
    made = cells({"a": other, "b": theirs}, baseline="b")["a"]
    assert (made["difference"], made["p"]) == ("-", "-")


def test_a_baseline_is_a_member():
    """The message lists the members."""
    with pytest.raises(ValueError, match="one of base, slow, stuck, never: got 'x'"):
        tables.comparison(FRAMES, asked(baseline="x"))


def test_a_baseline_without_the_metric_is_no_baseline():
    """Against a member that is measured otherwise there is nothing to test."""
    both = {"labels": FRAMES["base"], "numbers": frame(RUNS["slow"], "test_loss")}
    made = cells(both, baseline="numbers")["labels"]
    assert (made["difference"], made["p"], made["speed-up 1"]) == ("-", "-", "-")


def test_a_diverged_run_has_no_final_value():
    """Not the mean of the survivors, nor a loss from before; never the best."""
    fine, lost = RUNS["base"], [[0.3, 0.2, np.nan], *RUNS["base"][1:]]
    gone = [[np.nan] * 3] * 3
    seeds = {"fine": fine, "lost": lost, "gone": gone}
    frames = {name: frame(runs, "test_loss") for name, runs in seeds.items()}
    for made in frames.values():
        made["diverged"] = made["test_loss"].isna()
    table = tables.comparison(frames, asked(frames, baseline="fine"))
    assert table["final"].isna().tolist() == [False, True, True]
    made = printed(frames, baseline="fine")
    finals = [row["final test_loss"] for row in made.rows]
    assert finals[0].startswith("0.8500")
    assert finals[1:] == [
        "diverged (1/3 seeds, round 3)",
        "diverged (3/3 seeds, round 1)",
    ]
    assert [row["p"] for row in made.rows] == ["", "-", "-"]
    assert made.bold == [(0, "final test_loss")]
    assert any(note.startswith("diverged: ") for note in made.notes)
    assert not any(note.startswith("diverged: ") for note in printed().notes)


def test_bits_and_seconds():
    """Bits of one seed in both directions, seconds of all seeds together."""
    table = tables.comparison(FRAMES, asked())
    assert table.loc["base", "megabits"] == pytest.approx(3 * 0.75)
    assert table.loc["base", "seconds"] == 1.5
    assert cells()["base"]["Mbit up + down"] == "2.25"


# ---- through a comparison ------------------------------------------------------------


def results(**experiments):
    members = {
        name: fm.Result(one, FRAMES["base"], {}, title=name)
        for name, one in experiments.items()
    }
    return fm.Comparison(members)


def test_untuned_members_are_marked(monkeypatch):
    """A star for a method without numbers of its own for the data set."""
    entry = catalog.ALGORITHMS["fedprox"]
    monkeypatch.setitem(catalog.ALGORITHMS, "fedprox", entry._replace(tuned={}))
    foreign = dataclasses.replace(TINY, algorithm="fedprox")
    chosen = dataclasses.replace(foreign, options={"lr": 0.1})
    found = results(known=TINY, foreign=foreign, chosen=chosen)
    assert found.untuned == ("foreign",)
    made = found.printed()
    assert [row["method"] for row in made.rows] == ["known", "foreign *", "chosen"]
    assert made.notes[-1] == "* numbers not tuned for this data set."
    assert results(foreign=foreign).untuned == ()  # all alike: nothing to warn of


def test_another_metric_has_no_usual_target():
    """The data set's target is for the main metric only."""
    found = results(a=TINY, b=TINY)
    assert any(c.startswith("rounds to") for c in found.printed().columns)
    by_loss = found.printed(metric="train_loss")
    assert not any(c.startswith("rounds to") for c in by_loss.columns)
    assert by_loss.rows[0]["final train_loss"].startswith("0.2")
    assert "rounds to 0.4" in found.printed(0.4, metric="train_loss").columns
    with pytest.raises(ValueError, match="metric must be one of"):
        found.table(metric="loss")
    with pytest.raises(ValueError, match=r"in \(0, 1\]: got 90"):
        found.table(90)
