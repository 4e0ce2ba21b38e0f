"""Help texts: a screen each, examples that work, no option that is not there."""

import importlib
import io
import re
from contextlib import redirect_stdout

import pytest

from fedjax_mos import cli
from fedjax_mos.cli import app
from fedjax_mos.cli.help import FEW, help_of, options_of


def function(name):
    module, called, _ = app.COMMANDS[name]
    return getattr(importlib.import_module(f"fedjax_mos.cli.{module}"), called)


def text(*words):
    """What a command line prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        try:
            cli.main([*words])
        except SystemExit as end:
            assert not end.code
    return out.getvalue()


@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_fits_a_screen(name):
    """A help text that scrolls away, or that shows nobody how to begin."""
    lines = text(name, "--help").splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) < 80
    assert sum(line.startswith(f"  fedjax-mos {name}") for line in lines) in (1, 2, 3)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_shows_every_option(name, monkeypatch):
    """An option that exists and is in no help text, or the other way round."""
    monkeypatch.setenv("COLUMNS", "80")
    flag = re.compile(r"(?<![\w=])--[a-z][a-z-]*")
    ours = "\n".join(
        line
        for line in help_of(function(name), name).splitlines()
        if not line.startswith("  fedjax-mos")
    )
    found = {word.replace("--no-", "--") for word in flag.findall(ours)}
    theirs = text(name, "--help-all")
    heads = re.findall(r"^[│ ] (?:-h, )?(--\S+)", theirs, re.MULTILINE)
    wanted = {word.rstrip(",").replace("--no-", "--") for word in heads}
    assert found - {"--help-all"} == wanted - {"--help"}
    assert "{None}" not in theirs


def test_rare_options_exist():
    """A group of rare options names one that is gone."""
    there = {one.name for name in app.COMMANDS for one in options_of(function(name))}
    assert {name for names in FEW.values() for name in names} <= there


def test_schedules_are_many():
    """`--schedule` twice was refused as an option that is given twice."""
    app.check_words(["--schedule", "lr=rounds", "--schedule", "prox=rounds"])
    with pytest.raises(ValueError, match="--out must be given once"):
        app.check_words(["--out", "a", "--out", "b"])
