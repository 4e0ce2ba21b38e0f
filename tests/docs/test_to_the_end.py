"""Commands of the pages, run to the end with two rounds: their results are there."""

import shlex

import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from tests.docs.commands import lines_of
from tests.docs.test_blocks import BLOCKS

pytestmark = pytest.mark.thorough

RUNS = (
    ("README.md", "run --algorithm scaffold"),
    ("tutorial.md", "compare --algorithms"),
    ("many_clients.md", "run --dataset synthetic"),
    ("sweeps.md", "sweep --over lr="),
    ("sweeps.md", "tune --rounds 50"),
    ("search.md", "search --random 64"),
)
SHOWS = (
    ("tutorial.md", "table runs/FOLDER"),
    ("tutorial.md", "plot runs/FOLDER"),
    ("README.md", "report runs/FOLDER"),
)


def line_of(page, begins):
    """The words of the one command of a page that begins so."""
    lines = [x for b in BLOCKS if b.page == page for x in lines_of(b.text)]
    (found,) = [x for x in lines if x.startswith(f"fedjax-mos {begins}")]
    return shlex.split(found, comments=True)[1:]


def run(page, begins, out):
    """The command with two rounds and another folder."""
    words = line_of(page, begins)
    for name, value in (("--rounds", "2"), ("--out", out)):
        if name in words:
            words[words.index(name) + 1] = value
        else:
            words += [name, value]
    # No schedule has more segments than rounds.
    cli.main([word.replace("segments:10", "segments:2") for word in words])


@pytest.mark.parametrize(("page", "begins"), RUNS)
def test_results_are_written(page, begins, tmp_path, monkeypatch):
    """A command that trains and then fails to write, which nobody saw begin."""
    monkeypatch.chdir(tmp_path)
    run(page, begins, "here")
    result = fm.read(tmp_path / "here")
    assert len(result.frame) and len(result.table())


def test_results_are_shown(tmp_path, monkeypatch, capsys):
    """A comparison as the pages read it: table, picture, page."""
    monkeypatch.chdir(tmp_path)
    run("tutorial.md", "compare --algorithms", "runs/FOLDER")
    capsys.readouterr()
    for page, begins in SHOWS:
        cli.main(line_of(page, begins))
    assert r"\begin{tabular}" in capsys.readouterr().out
    assert [*tmp_path.glob("runs/FOLDER/**/*.html")]
    assert [*tmp_path.rglob("*.png")]
