"""What a command imports before it can answer."""

import subprocess
import sys

import pytest

from fedjax_mos.cli import app


def loaded(*args):
    """The modules that are loaded when a command line has been answered."""
    code = (
        "import sys\n"
        "from fedjax_mos.cli import main\n"
        f"try: main({list(args)!r})\n"
        "except SystemExit: pass\n"
        "print('MODULES', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.partition("MODULES")[2].split()


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("--version",),
        ("rnu",),
        ("run", "--help"),
        ("run", "--help-all"),
        ("run", "--rouns", "3"),
    ],
    ids=" ".join,
)
def test_help_and_wrong_words_need_no_jax(args):
    """A help text or a typing error is answered at once."""
    assert not {"jax", "pandas", "matplotlib"} & set(loaded(*args))


def test_an_unknown_command_gets_a_hint(capsys):
    """A wrong command ends with one line, a hint and exit status 2."""
    with pytest.raises(SystemExit) as ended:
        app.main(["comparee"])
    assert ended.value.code == 2
    assert "did you mean compare?" in capsys.readouterr().err
