"""Results that were written before, shown by the command line."""

import csv
import io
import re

import pytest

import fedjax_mos as fm
from tests.cli.test_cli import command
from tests.lab import shown
from tests.lab.tiny import TINY

pytestmark = pytest.mark.thorough

SIGNS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
WORDS = ["--clients", 6, "--cohort", 2, "--steps", 1, "--batch-size", 4]
WORDS += ["--model", "logistic", "--rounds", 1]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One folder of every kind of results."""
    root = tmp_path_factory.mktemp("shown")
    both = shown.comparison()
    results = {
        "comparison": both,
        "run": both.members["fast"],
        "sweep": shown.grid(),
        "tuning": shown.tuned(),
    }
    for name, result in results.items():
        result.write(root / name)
    return {name: root / name for name in results}


def refused(*words):
    """The one line of an error that is the user's."""
    done = command(*words)
    assert done.code == 2 and not done.out
    lines = [t for t in done.err.strip().splitlines() if t != "starting JAX"]
    assert len(lines) == 1 and lines[0].startswith("fedjax-mos: ")
    return lines[0]


# ---- plot ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "words", "name"),
    [
        ("run", [], "curves.png"),
        ("comparison", ["--x", "bits"], "curves-bits.png"),
        ("comparison", ["--kind", "targets"], "targets.png"),
        ("comparison", ["--kind", "selection"], "selection.png"),
        ("comparison", ["--kind", "clients"], "clients.png"),
        ("run", ["--kind", "partition"], "partition.png"),
        ("sweep", [], "curves.png"),
        (
            "sweep",
            ["--kind", "heat_map", "--axes", "server_lr", "lr"],
            "heat_map-server_lr-lr.png",
        ),
        ("tuning", ["--kind", "trajectory"], "trajectory.png"),
    ],
)
def test_plot(folders, folder, words, name):
    """Every kind of picture, in a file of the folder named after what it shows."""
    path = folders[folder] / name
    path.unlink(missing_ok=True)
    done = command("plot", folders[folder], *words)
    assert done.code == 0 and done.out == f"{path}\n"
    assert path.read_bytes().startswith(SIGNS[".png"])


@pytest.mark.parametrize("ending", SIGNS)
def test_plot_to_a_file(folders, tmp_path, ending):
    """The form that the file's ending names."""
    path = tmp_path / f"picture{ending}"
    words = ["--metrics", "test_loss", "--band", "sem", "--smooth", 2, "--out", path]
    done = command("plot", folders["comparison"], *words)
    assert done.code == 0 and done.out.strip() == str(path)
    assert path.read_bytes().startswith(SIGNS[ending])


def test_plot_hands_its_flags_on(folders, monkeypatch, tmp_path):
    """What is drawn is what was asked for, of all folders together."""
    seen, figure = {}, shown.comparison().curves()

    def curves(self, metrics, **options):
        seen.update(options, metrics=metrics, members=list(self.members))
        return figure

    monkeypatch.setattr(fm.Comparison, "curves", curves)
    words = ["--metrics", "test_loss", "train_loss", "--x", "seconds"]
    words += ["--band", "ci95", "--smooth", 3, "--out", tmp_path / "p.png"]
    both = [folders["comparison"], folders["run"]]
    assert command("plot", *both, *words).code == 0
    assert seen == {
        "metrics": ("test_loss", "train_loss"),
        "x": "seconds",
        "band": "ci95",
        "smooth": 3,
        "members": ["fast", "still", "fast #2"],
    }


@pytest.mark.parametrize(
    ("folder", "words", "message"),
    [
        ("run", ["--kind", "heat_map"], "kind heat_map needs the folder of a sweep"),
        (
            "run",
            ["--kind", "trajectory"],
            "kind trajectory needs the folder of a tuning",
        ),
        ("tuning", [], "one holds a tuning"),
        ("sweep", ["--kind", "targets"], "one holds a sweep"),
        (
            "sweep",
            ["--kind", "heat_map", "--axes", "lr", "x"],
            "axis must be one of lr",
        ),
        ("run", ["--metrics", "accuracy"], "metric must be one of"),
        ("run", ["--kind", "targets", "--targets", 90], "target must lie in (0, 1]"),
        ("run", ["--out", "picture.bmp"], "must end in .png, .svg, .pdf"),
    ],
)
def test_plot_refuses(folders, folder, words, message):
    """What a folder cannot show is one line, and status 2."""
    assert message in refused("plot", folders[folder], *words)


def test_what_was_not_kept_is_not_shown(tmp_path):
    """The message says how to run."""
    fm.Result(TINY, shown.comparison().members["fast"].frame, {}).write(tmp_path)
    for kind, message in (("selection", "cohorts=True"), ("clients", "per_client=")):
        assert message in refused("plot", tmp_path, "--kind", kind)


@pytest.mark.parametrize("name", ["plot", "table", "report"])
def test_a_folder_without_results(name, tmp_path):
    """It is named, and none is asked for by name."""
    assert f"{tmp_path} holds no results of fedjax_mos" in refused(name, tmp_path)
    if name != "report":
        assert "at least one folder" in refused(name)


# ---- table ---------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "markdown", "csv", "latex"])
def test_table(folders, form):
    """The printed table of what was written, in every form."""
    done = command("table", folders["comparison"], "--form", form)
    printed = fm.read(folders["comparison"]).printed()
    assert done.code == 0 and done.out == getattr(printed, form)() + "\n"


def test_table_with_everything(folders):
    """Targets, rounds, a baseline, the metric and the spread."""
    words = ["--form", "csv", "--targets", 0.01, 0.99, "--at", 1, "--spread", "sem"]
    done = command("table", folders["comparison"], *words, "--baseline", "fast")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["method"] for row in rows] == ["fast", "still"]
    assert list(rows[0]) == [
        "method",
        "final accuracy",
        "after round 1",
        "rounds to 1 %",
        "speed-up at 1 %",
        "rounds to 99 %",
        "speed-up at 99 %",
        "difference",
        "p",
        "Mbit up + down",
        "seconds",
    ]
    assert rows[1]["rounds to 99 %"] == "3+" and rows[1]["speed-up at 99 %"] == "-"
    by_loss = command("table", folders["comparison"], "--metric", "test_loss")
    assert "final test_loss" in by_loss.out


def test_table_of_several_folders(folders):
    """Runs and comparisons together; the same name twice is numbered."""
    done = command("table", folders["run"], folders["comparison"], "--form", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["method"] for row in rows] == ["fast", "fast #2", "still"]
    assert rows[0]["final accuracy"] == rows[1]["final accuracy"]
    three = command("table", *[folders["run"]] * 3, "--form", "csv").out
    assert [row.split(",")[0] for row in three.splitlines()[1:]] == [
        "fast",
        "fast #2",
        "fast #3",
    ]


def test_table_of_a_sweep(folders):
    """The best configurations, or the best for each value of an axis."""
    done = command("table", folders["sweep"], "--top", 2, "--form", "csv")
    assert len(done.out.splitlines()) == 3
    done = command("table", folders["sweep"], "--per", "lr", "--form", "csv")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert {row["lr"] for row in rows} == {"0.1", "0.2", "0.4"} and len(rows) == 3


def test_table_refuses(folders):
    """A tuning, a sweep among runs, an unknown baseline, metric or axis."""
    run, sweep = folders["run"], folders["sweep"]
    assert "one holds a tuning" in refused("table", folders["tuning"])
    assert "one holds a sweep" in refused("table", run, sweep)
    assert "baseline must be one of fast" in refused("table", run, "--baseline", "x")
    assert "metric must be one of" in refused("table", run, "--metric", "x")
    assert "axis must be one of lr, server_lr" in refused("table", sweep, "--per", "x")


def test_a_sweep_is_shown_alone(folders):
    """Folders beside that of a sweep are not passed over in silence."""
    sweep, run = folders["sweep"], folders["run"]
    assert "one holds a sweep" in refused("table", sweep, run)
    assert "one holds a sweep" in refused("plot", sweep, run)


# ---- report --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["comparison", "run", "sweep", "tuning"])
def test_report(folders, kind, tmp_path):
    """One page in the folder, or where it is wanted."""
    done = command("report", folders[kind])
    path = folders[kind] / "report.html"
    assert done.code == 0 and done.out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>") and "<table" in text
    if kind == "run":
        other = tmp_path / "page.html"
        assert command("report", folders[kind], "--out", other).out == f"{other}\n"
        pages = [text, other.read_text(encoding="utf-8")]
        first, second = (re.sub("base64,[^']*", "", page) for page in pages)
        assert first == second  # pictures have a date in them


# ---- compare -------------------------------------------------------------------------


def test_compare_members_with_options(tmp_path):
    """The same algorithm twice, told apart by an option of its own."""
    names = ["--algorithms", "fedavg", "fedavg:lr=0.1", "--sampler", "ucs"]
    done = command("compare", *names, *WORDS, "--seeds", 1, "--out", tmp_path)
    assert done.code == 0
    found = fm.read(tmp_path).members
    assert list(found) == ["fedavg/ucs", "fedavg/ucs:lr=0.1"]
    numbers = [r.experiment.parts["algorithm"].spec.hp["lr"] for r in found.values()]
    assert float(numbers[1]) == 0.1 != float(numbers[0])
    assert "fedavg/ucs:lr=0.1" in command("table", tmp_path).out
    line = refused("compare", "--algorithms", "fedavg:lr", *WORDS, "--out", tmp_path)
    assert "takes name=value: got 'lr'" in line
