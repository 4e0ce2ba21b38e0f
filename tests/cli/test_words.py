"""`resume` says a command's words again, and nothing else."""

import json

import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from fedjax_mos.cli import words
from fedjax_mos.cli.arguments import new_folder
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab.run_folder import WORDS

SMALL = "--clients 6 --cohort 2 --steps 1 --rounds 2 --model logistic --seeds 1"
SWEEP = ["sweep", *SMALL.split(), "--algorithm", "fedavg", "--sampler", "ucs"]


def test_a_sweep_is_resumed_by_its_folder(tmp_path, capsys):
    """Other words than those that were said, or a second --out."""
    out = tmp_path / "sweep"
    cli.main([*SWEEP, "--over", "lr=0.1,0.2", f"--out={out}"])
    before = fm.read(out).frame
    (out / "pieces" / "00000.parquet").unlink()
    capsys.readouterr()
    cli.main(["resume", str(out), "--quiet"])
    shown = capsys.readouterr()
    assert str(out) in shown.out
    assert not shown.err  # no bar, no note
    assert (
        fm.read(out)
        .frame.drop(columns="seconds")
        .equals(before.drop(columns="seconds"))
    )
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", str(out), "--rounds", "9"])
    assert "rounds can be raised for runs and comparisons" in capsys.readouterr().err


def test_a_sweep_that_found_nothing_says_so(tmp_path, capsys):
    """Exit status 0 where every configuration diverged."""
    with pytest.raises(SystemExit, match="3"):
        cli.main([*SWEEP, "--over", "lr=3e38,2e38", "--out", str(tmp_path / "wild")])
    assert "every configuration has a run that did" in capsys.readouterr().err


def test_an_interrupt_says_how_to_go_on(tmp_path, capsys):
    """One before the first piece, of which nothing is left but the folder."""
    with pytest.raises(SystemExit, match="130"), words.resumable(tmp_path, "sweep"):
        raise KeyboardInterrupt
    assert f"fedjax-mos resume {tmp_path}" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{", "5", '["rm", "-r"]', '["run", 3]'])
def test_words_that_were_changed_are_refused(text, tmp_path, capsys):
    """What a folder holds is run as it stands."""
    (tmp_path / WORDS).write_text(text)
    with pytest.raises(SystemExit, match="2"):
        cli.main(["resume", str(tmp_path)])
    assert WORDS in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"kind": "sweep"})])
def test_a_damaged_plan_is_named(text, tmp_path, capsys):
    """A traceback, or an error that names no file."""
    cli.main([*SWEEP, "--over", "lr=0.1", "--out", str(tmp_path)])
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(SystemExit, match="2"):
        cli.main([*SWEEP, "--over", "lr=0.1", "--out", str(tmp_path)])
    assert "plan.json is damaged" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_damaged_piece_is_run_again(tmp_path, capsys):
    """A sweep that cannot be resumed because of one bad file."""
    call = [*SWEEP, "--over", "lr=0.1,0.2", "--width", "1", "--out", str(tmp_path)]
    cli.main(call)
    before = fm.read(tmp_path).frame
    (tmp_path / "pieces" / "00001.parquet").write_bytes(b"PAR1")
    cli.main(call)
    assert "00001.parquet is damaged" in capsys.readouterr().err
    after = fm.read(tmp_path).frame
    assert after.drop(columns="seconds").equals(before.drop(columns="seconds"))


def test_two_commands_in_one_second_have_two_folders(tmp_path, monkeypatch):
    """Jobs of an array that write to one folder, of which one survives."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "now")
    assert new_folder(None, "run") != new_folder(None, "run")


def test_a_study_is_repeated_by_its_configuration(tmp_path, monkeypatch, capsys):
    """`run --config` says the words of a sweep again, with another folder."""
    said = []
    monkeypatch.setattr(words, "call", lambda *again: said.append(again))
    (tmp_path / "config.json").write_text('{"kind": "sweep"}')
    config = ["run", "--config", str(tmp_path / "config.json"), "--out", "new"]
    with pytest.raises(SystemExit, match="2"):
        cli.main(config)
    assert "is of a sweep from Python" in capsys.readouterr().err
    (tmp_path / WORDS).write_text(json.dumps([*SWEEP, "--over", "lr=1", "--out", "x"]))
    cli.main(config)
    assert said == [("sweep", [*SWEEP[1:], "--over", "lr=1", "--out", "new"])]
    with pytest.raises(SystemExit, match="2"):
        cli.main([*config, "--rounds", "9"])
    assert "config says everything" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_comparison_is_repeated_by_its_configuration(tmp_path, capsys):
    """Members, seeds and data are those of the file."""
    small = SMALL.removesuffix(" --seeds 1").split()
    first, again = tmp_path / "a", tmp_path / "b"
    members = ["--algorithms", "fedavg", "fedmos:lr=0.2", "--seeds", "2"]
    cli.main(["compare", *small, *members, "--out", str(first)])
    cli.main(["run", "--config", str(first / "config.json"), "--out", str(again)])
    before, after = (
        fm.read(one).frame.drop(columns="seconds") for one in (first, again)
    )
    assert before.equals(after)
    stored = json.loads((first / "config.json").read_text())
    stored["data"] = dict.fromkeys(stored["data"], "other")
    (first / "config.json").write_text(json.dumps(stored))
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "--config", str(first / "config.json")])
    assert "digits had the hash other" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        "sweep --over nothing=1",
        "sweep --over lr=0.1 --metric no",
        "search --over nothing=1",
        "tune --wrt nothing",
        "tune --horizon 0",
        "compare --algorithms fedavg --checkpoint-every -1",
    ],
)
def test_what_is_refused_leaves_no_folder(wrong, tmp_path, monkeypatch, capsys):
    """Empty folders under runs/, one per typing error."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        cli.main(wrong.split())
    assert not list((tmp_path / "runs").glob("*"))


def test_words_are_kept_by_who_has_the_folder(tmp_path):
    """The words of a second process, which is then refused, in place of the first's."""
    with alone(tmp_path), words.resumable(tmp_path, "sweep"):
        assert not (tmp_path / WORDS).exists()
    with words.resumable(tmp_path, "sweep"):
        assert (tmp_path / WORDS).exists()
