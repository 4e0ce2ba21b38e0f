"""The command line: files, tables, names, and the promises of a comparison."""

import contextlib
import dataclasses
import inspect
import io
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli, machine
from fedjax_mos.cli import app, commands
from fedjax_mos.data.sources import SOURCES
from fedjax_mos.engine.history import History
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.lab import catalog, simulation
from fedjax_mos.lab.citation import short

TINY = ["--clients", "12", "--cohort", "3", "--steps", "2", "--batch-size", "4"]
COLUMNS = [
    "round",
    "train_loss",
    "test_loss",
    "test_accuracy",
    "bits_up",
    "bits_down",
    "seconds",
]
RUN_FILES = {
    "config.json",
    "history.csv",
    "summary.json",
    "params.npz",
    "curves.png",
}
PNG = b"\x89PNG"


def names_in(folder):
    """What a user sees in it."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


class Done(NamedTuple):
    """A finished command."""

    code: int
    out: str
    err: str
    folder: Path | None


def command(*words):
    """Run the command line in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as end:
            code = end.code or 0
    named = [t for t in out.getvalue().splitlines() if t.startswith("results in ")]
    folder = Path(named[0].removeprefix("results in ")) if named else None
    return Done(code, out.getvalue(), err.getvalue(), folder)


SETTINGS = {
    "lr": "0.2",  # of the algorithm
    "weights": "mean",  # of the sampler
    "partition.largest": "8",
    "hidden": "6",  # of the model
    "local.clip": "5",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One `run` that sets an option of every component."""
    flags = [word for k, v in SETTINGS.items() for word in ("--set", f"{k}={v}")]
    out = tmp_path_factory.mktemp("cli") / "new" / "run"
    words = ["run", *TINY, "--sampler", "ucs", "--rounds", 3, "--seed", 7, *flags]
    return command(*words, "--out", out)


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """One `compare` of two members over two seeds."""
    out = tmp_path_factory.mktemp("cli") / "compare"
    words = ["compare", *TINY, "--rounds", 3, "--seeds", 2, "--seed", 4]
    members = ["--algorithms", "fedmos/acs", "fedavg/ucs"]
    settings = ["--set", "fedavg.lr=0.2", "--set", "hidden=6", "--target", "0.05"]
    return command(*words, *members, *settings, "--out", out)


# ---- run -----------------------------------------------------------------------------


def test_run_writes_what_it_promises(ran):
    """A file or a column that programs and people look for is gone."""
    assert ran.code == 0
    assert names_in(ran.folder) == RUN_FILES
    history = pd.read_csv(ran.folder / "history.csv")
    assert list(history.columns[:4]) == COLUMNS[:4]
    assert set(COLUMNS) <= set(history.columns)
    assert history["round"].tolist() == [1, 2, 3]
    assert (ran.folder / "curves.png").read_bytes().startswith(PNG)


def test_run_says_where_and_how_well(ran):
    """The folder's name or the result is not printed, or the bar hides them."""
    assert "results in" in ran.out.splitlines()[-1]
    assert "final accuracy" in ran.out and "fedmos/ucs" in ran.out
    final = pd.read_csv(ran.folder / "history.csv")["test_accuracy"].iloc[-1]
    assert f" {100 * final:.1f} %" in ran.out  # one seed has no spread
    assert "One seed: no spread is known." in ran.out
    assert "3/3" in ran.err  # the progress bar


def test_run_summary_agrees_with_history(ran):
    """A summary of another run than the one in history.csv."""
    history = pd.read_csv(ran.folder / "history.csv")
    (summary,) = json.loads((ran.folder / "summary.json").read_text())
    last = history.iloc[-1]
    assert summary["rounds"] == 3 and summary["metric"] == "test_accuracy"
    assert summary["final"] == pytest.approx(last["test_accuracy"])
    assert summary["best"] == pytest.approx(history["test_accuracy"].max())
    assert summary["final_test_loss"] == pytest.approx(last["test_loss"])
    assert summary["diverged_at"] is None
    assert (summary["bits_up"], summary["bits_down"]) == (
        last["bits_up"],
        last["bits_down"],
    )
    assert summary["target"] == catalog.DATASET_DEFAULTS["digits"].target
    # Sampler ucs: every round three distinct clients send and get one model.
    parameters = (64 * 6 + 6) + (6 * 10 + 10)
    assert summary["bits_up"] == 3 * 3 * 32 * parameters


def test_run_settings_reach_every_component(ran):
    """A --set that is accepted and has no effect."""
    chosen = json.loads((ran.folder / "config.json").read_text())["options"]
    assert chosen["algorithm"]["lr"] == 0.2
    assert chosen["sampler"]["weights"] == "mean"
    assert chosen["partition"]["largest"] == 8
    assert chosen["model"]["hidden"] == [6]
    assert chosen["local"]["clip"] == 5.0


@pytest.mark.thorough
def test_run_again_from_its_config(ran):
    """config.json leaves out something that the run depends on."""
    repeated = fm.read(ran.folder).experiment.run(progress=False).frame
    written = pd.read_csv(ran.folder / "history.csv")
    columns = written.columns.drop(["seconds", "diverged"])
    np.testing.assert_allclose(repeated[columns], written[columns], rtol=1e-6)


def test_run_as_a_process(tmp_path):
    """The installed script does not run, or its default folder is not under runs/."""
    script = Path(sys.executable).with_name("fedjax-mos")
    words = "run --algorithm fedavg --rounds 1 --steps 1 --model logistic"
    done = subprocess.run(
        [script, *words.split()], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"results in runs/{folder.name}" in done.stdout
    assert names_in(folder) == RUN_FILES


def test_full_folder_is_refused(tmp_path):
    """Results of an earlier run are overwritten."""
    (tmp_path / "history.csv").write_text("precious")
    for name in ("run", "compare"):
        done = command(name, "--out", tmp_path)
        assert done.code == 2
        assert str(tmp_path) in done.err and "new or empty" in done.err
    assert (tmp_path / "history.csv").read_text() == "precious"


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C while the host waits for the second block of rounds."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    add, calls = History.add, []

    def impatient(self, *args):
        calls.append(args)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        add(self, *args)

    monkeypatch.setattr(History, "add", impatient)
    monkeypatch.setattr(Pace, "rounds", lambda self: 10)


@pytest.mark.thorough
@pytest.mark.usefixtures("interrupted")
def test_interrupted_run_keeps_its_rounds(tmp_path):
    """Ctrl-C after an hour loses the hour, or a script takes it for success."""
    words = ["run", *TINY, "--algorithm", "fedavg", "--model", "logistic"]
    done = command(*words, "--rounds", 23, "--out", tmp_path)
    assert done.code == 130
    assert "interrupted after round 20 of 23" in done.err
    files = names_in(tmp_path)
    assert files == RUN_FILES | {"checkpoints"}
    assert f"fedjax-mos resume {tmp_path}" in done.err
    rounds = pd.read_csv(tmp_path / "history.csv")["round"]
    assert rounds.tolist() == list(range(1, 21))


@pytest.mark.thorough
@pytest.mark.usefixtures("interrupted")
def test_interrupted_comparison_keeps_its_members(tmp_path):
    """Ctrl-C in a comparison goes on with the next member or writes no table."""
    words = ["compare", *TINY, "--model", "logistic", "--rounds", 23, "--seeds", 1]
    members = ["--algorithms", "fedavg/ucs", "fedmos/ucs"]
    done = command(*words, *members, "--out", tmp_path)
    assert done.code == 130
    names = names_in(tmp_path)
    assert names == {"fedavg-ucs", "comparison.csv", "config.json", "curves.png"}
    assert "fedavg/ucs" in done.out and "fedmos/ucs" not in done.out


# ---- compare -------------------------------------------------------------------------


def test_compare_writes_what_it_promises(compared):
    """A member without its folder, or no common table and figure."""
    assert compared.code == 0
    members = {"fedmos-acs", "fedavg-ucs"}
    names = names_in(compared.folder)
    assert names == members | {"comparison.csv", "config.json", "curves.png"}
    assert (compared.folder / "curves.png").read_bytes().startswith(PNG)
    for member in members:
        inside = compared.folder / member
        assert names_in(inside) == RUN_FILES - {"curves.png"}
        history = pd.read_csv(inside / "history.csv")
        assert list(history.columns[:5]) == ["seed", *COLUMNS[:4]]
        assert set(COLUMNS) <= set(history.columns)
        assert history["seed"].tolist() == [4, 4, 4, 5, 5, 5]
        summary = json.loads((inside / "summary.json").read_text())
        assert [run["seed"] for run in summary] == [4, 5]


def test_compare_prints_one_table(compared):
    """The table lacks a member, a spread or the rounds to the target."""
    header, rule, *rows, note, picture, folder = compared.out.splitlines()
    for column in ("method", "final accuracy", "rounds to 5 %", "Mbit", "seconds"):
        assert column in header
    assert set(rule) == {"-", " "} and folder.startswith("results in")
    assert Path(picture.removeprefix("picture: ")).is_file()
    assert [row.split()[0] for row in rows] == ["fedmos/acs", "fedavg/ucs"]
    assert all("±" in row for row in rows)
    assert note == "± sample standard deviation over seeds (2 seeds)."
    assert len({len(line) for line in (header, rule, *rows)}) == 1


def test_compare_table_agrees_with_histories(compared):
    """Means and spreads of other numbers than the members' own."""
    table = pd.read_csv(compared.folder / "comparison.csv", index_col="method")
    for name, row in table.iterrows():
        path = compared.folder / name.replace("/", "-") / "history.csv"
        history = pd.read_csv(path)
        final = history[history["round"] == 3]
        assert row["metric"] == "test_accuracy"
        assert row["final"] == pytest.approx(final["test_accuracy"].mean())
        assert row["final_spread"] == pytest.approx(final["test_accuracy"].std())
        good = history[history["test_accuracy"] >= 0.05]
        assert row["rounds_to_0.05"] == good.groupby("seed")["round"].min().mean()
        bits = (final["bits_up"] + final["bits_down"]).mean() / 1e6
        assert row["megabits"] == pytest.approx(bits)


def test_compare_settings_go_where_they_belong(compared):
    """An option of one member changes another, or misses one that has it."""
    configs = {
        name: json.loads((compared.folder / name / "config.json").read_text())
        for name in ("fedmos-acs", "fedavg-ucs")
    }
    tuned = catalog.ALGORITHMS["fedmos"].spec("digits").options["lr"]
    assert configs["fedavg-ucs"]["options"]["algorithm"]["lr"] == 0.2
    assert configs["fedmos-acs"]["options"]["algorithm"]["lr"] == tuned
    assert all(c["options"]["model"]["hidden"] == [6] for c in configs.values())


@pytest.mark.thorough
def test_compare_seeds_equal_single_runs(compared):
    """Runs that share a program influence one another."""
    folder = compared.folder / "fedavg-ucs"
    together = pd.read_csv(folder / "history.csv").set_index("seed").loc[5]
    member = fm.read(folder).experiment
    alone = dataclasses.replace(member, seed=5).run(progress=False).frame
    columns = [name for name in together if name not in ("seconds", "diverged")]
    np.testing.assert_allclose(together[columns], alone[columns], rtol=1e-4)


def test_compare_defaults():
    """`compare` without arguments is no longer the README's comparison."""
    defaults = inspect.signature(commands.compare_methods).parameters
    assert defaults["algorithms"].default == ("fedmos/acs", "fedmos/ucs", "fedavg/ucs")
    assert defaults["seeds"].default > 1


@pytest.fixture
def batches(monkeypatch):
    """Every plan drawn in the rounds that run: {client's offset: rows}."""
    drawn = {}
    make = simulation.with_replacement

    def note(offset, rows):
        drawn[int(offset)] = rows.tolist()

    def spied(*args):
        plan = make(*args)

        def spy(view, key):
            out = plan(view, key)
            jax.debug.callback(note, view.offset, out.rows)
            return out

        return spy

    monkeypatch.setattr(simulation, "with_replacement", spied)
    return drawn


@pytest.mark.thorough
def test_common_random_numbers(batches):
    """Members differ by luck: other cohorts of one sampler, or other minibatches."""
    seen = {}
    for name in ("fedmos/ucs", "fedavg/ucs", "fedavg/acs"):
        algorithm, sampler = name.split("/")
        member = fm.Experiment(
            algorithm=algorithm,
            sampler=sampler,
            clients=6,
            cohort=4,
            steps=2,
            batch_size=3,
            model="logistic",
        )
        made = member.build()
        state, key = made.start(jax.random.key(0))
        step = jax.jit(made.sim.step)
        rounds = []
        for number in range(3):
            batches.clear()
            state, info = step(made.data, state, jax.random.fold_in(key, number))
            jax.effects_barrier()
            rounds.append((np.asarray(info.cohort.ids), dict(batches)))
        seen[name] = rounds
    for ours, other, adaptive in zip(*seen.values(), strict=True):
        np.testing.assert_array_equal(ours[0], other[0])
        assert len(ours[1]) == 4
        assert ours[1] == other[1]
        common = ours[1].keys() & adaptive[1].keys()
        assert common  # four of six, twice
        assert all(ours[1][client] == adaptive[1][client] for client in common)
    assert seen["fedmos/ucs"][0][1] != seen["fedmos/ucs"][1][1]


# ---- list ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: no\nmore"), 1, "RESOURCE"),
        (MemoryError(), 2, "not enough memory"),
    ],
)
def test_a_machine_that_gives_up(error, code, said, monkeypatch, capsys):
    """A traceback, or an empty line, where memory is what lacks."""

    def fails(*words):
        raise error

    monkeypatch.setattr(app, "call", fails)
    with pytest.raises(SystemExit) as ended:
        cli.main(["run"])
    assert ended.value.code == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_list_json():
    """A program that reads the list finds other keys than documented."""
    done = command("list", "--json")
    listing = json.loads(done.out)
    kinds = {"algorithms", "samplers", "channels", "partitions", "datasets", "models"}
    assert kinds | {"losses"} == set(listing)
    for kind in listing:
        assert listing[kind], kind
        for entry in listing[kind]:
            assert entry["name"] and entry["description"].strip(), (kind, entry)
            if kind not in ("losses", "datasets"):
                assert isinstance(entry["options"], dict)
    names = {kind: {entry["name"] for entry in listing[kind]} for kind in kinds}
    assert names["algorithms"] == set(catalog.ALGORITHMS)
    assert names["datasets"] == set(SOURCES)
    assert {"fedmos", "fedavg", "fedmos_release"} <= names["algorithms"]
    assert {"acs", "ucs", "md"} <= names["samplers"]


def test_list_shows_every_name():
    """A name that can be typed and is not shown, or shown without numbers or paper."""
    done = command("list")
    for entries in catalog.listing().values():
        for entry in entries:
            assert f"  {entry['name']} " in done.out
            assert entry["description"] in done.out
            assert all(short(key) in done.out for key in entry.get("cite", ()))
            for option, value in entry.get("options", {}).items():
                assert f"{option}={value}" in done.out


@pytest.mark.parametrize(
    "words",
    [[], ["run"], ["compare"], ["sweep"], ["tune"], ["list"], ["cite"], ["data"]],
)
def test_help(words):
    """Help that does not come, or an option without a word on what it does."""
    done = command(*words, "--help")
    assert done.code == 0
    assert "fedjax-mos" in done.out
    if words == ["run"]:
        for field in dataclasses.fields(fm.Experiment):
            if field.name not in ("options", "metrics"):
                assert f"--{field.name.replace('_', '-')}" in done.out
        assert "--set" in done.out and "--out" in done.out


# ---- cite ----------------------------------------------------------------------------


def test_cite():
    """BibTeX of exactly what the flags choose, and nothing is loaded or run."""
    words = ["--algorithm", "fedprox", "--sampler", "md", "--dataset", "cifar10"]
    done = command("cite", *words, "--set", "lr=0.5")
    assert done.code == 0 and not done.err
    one = fm.Experiment(algorithm="fedprox", sampler="md", dataset="cifar10")
    assert done.out.strip() == fm.citation(one).strip()
    assert "@inproceedings{li2020fedprox," in done.out
    assert command("cite", "--algorithm", "fedproxx").code == 2


# ---- schedules -----------------------------------------------------------------------


def test_schedules_on_the_command_line(monkeypatch, tmp_path):
    """`--set lr=0.3,0.2` is one value per round, and is refused if rounds lack one."""
    seen = []

    def run(self, *args, **options):
        seen.append(self)
        raise ValueError("far enough")

    monkeypatch.setattr(fm.Experiment, "run", run)
    monkeypatch.setattr(machine, "use_all_cores", lambda: None)
    words = ["run", "--set", "lr=0.3,0.2", "--out", tmp_path / "out"]
    assert "far enough" in command(*words, "--rounds", 2).err
    (one,) = seen
    assert one.parts["algorithm"].spec.hp["lr"].values.tolist() == [0.3, 0.2]
    done = command(*words, "--rounds", 3)
    assert done.code == 2 and len(seen) == 1
    assert "schedule algorithm.lr must have a value for each of 3 rounds" in done.err
