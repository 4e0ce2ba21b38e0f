"""What people see while a run is under way."""

from fedjax_mos.engine import progress


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


def test_nothing_is_said_unasked(capsys):
    """progress=False is silent."""
    with progress.Progress(10, shown=False, compiling=True) as shown:
        shown.update(10, {})
    assert capsys.readouterr().err == ""
