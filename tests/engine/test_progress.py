"""What people see while a run is under way."""

import pytest

import fedjax_mos as fm
from fedjax_mos.engine import progress
from tests.lab.tiny import TINY


def test_a_log_gets_whole_lines_now_and_then(capsys, monkeypatch):
    """A log file has no carriage returns, and a line only after some silence."""
    clock = iter(range(0, 1000, 20))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr(progress, "keeps_programs", lambda: True)
    with progress.Progress(40, shown=True, compiling=True) as shown:
        for _ in range(4):
            shown.update(10, {"train_loss": "0.5"})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "compiling (kept for next time)"
    assert lines[1].startswith("round 20/40, train_loss=0.5, 2 s/round")
    assert lines[-1].startswith("round 40/40") and len(lines) == 3
    assert not any("\r" in line for line in lines)


def test_the_pace_is_that_of_rounds(capsys, monkeypatch):
    """A warm-up of minutes counted into every round's time left."""
    now = iter([0.0, 900.0, 1000.0, 1100.0])  # the start and three updates
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    with progress.Progress(300, shown=True) as shown:
        shown.waiting("the sampler is at work")
        shown.update(1)
        shown.waiting("the sampler is at work")
        shown.update(99)
        shown.update(100)
    assert capsys.readouterr().err.splitlines() == [
        "the sampler is at work",
        "round 1/300",
        "round 100/300, 1.01 s/round, 202 s left",
        "round 200/300, 1.01 s/round, 101 s left",
    ]


def test_studies_have_units_of_their_own(capsys):
    """A log full of a bar's fragments, one per piece of a sweep."""
    with progress.Progress(3, shown=True, done=1, unit="piece") as shown:
        shown.update(1)
        shown.update(1)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "resumed after piece 1 of 3"
    assert last.startswith("piece 3/3, ") and last.endswith("s/piece, 0 s left")


def test_nothing_is_said_unasked(capsys):
    """progress=False is silent."""
    with progress.Progress(10, shown=False, compiling=True) as shown:
        shown.update(10, {})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("study", "last"),
    [
        (lambda: fm.sweep(TINY, lr=[0.1, 0.2], width=1), "piece 2/2, "),
        (lambda: fm.search(TINY, lr=[0.1, 0.2], metric="test_loss"), "round "),
        (lambda: fm.tune(TINY, ("lr",), candidates=2, updates=2), "update 2/2, "),
    ],
    ids=["sweep", "search", "tune"],
)
def test_studies_write_whole_lines_to_a_log(study, last, capsys):
    """A bar that is drawn hundreds of times where nobody sees it move."""
    study()
    err = capsys.readouterr().err
    assert "\r" not in err and "it/s" not in err
    assert err.splitlines()[-1].startswith(last), err
