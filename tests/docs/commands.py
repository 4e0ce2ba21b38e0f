"""Command lines as help texts and documents print them, tried in a folder of their own.

Commands that train stop where their first round would begin; commands that read results
find some, by the names that they use.
"""

import dataclasses
import io
import shlex
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

import fedjax_mos as fm
from fedjax_mos import cli
from tests.bad_input.harness import Accepted, no_rounds

READS = ("resume", "plot", "table", "report")
TINY = {"rounds": 2, "clients": 6, "cohort": 2, "steps": 1, "model": "logistic"}


def prepare(here: Path) -> Path:
    """One folder of results of every kind that lines show."""
    one = fm.Experiment(**TINY, algorithm="fedavg", sampler="ucs")
    one.run(2, out=here / "run", progress=False)  # one program for all
    slow = dataclasses.replace(one, options={"lr": 0.01})
    members = {"fedavg/ucs": one, "slow": slow}
    fm.compare(members, 2, out=here / "comparison", progress=False)
    grid = {"lr": [0.1], "server_lr": [1.0], "algorithm": ["fedavg"]}
    fm.sweep(one, **grid, seeds=2, progress=False).write(here / "sweep")
    return here


def lines_of(block: str) -> list[str]:
    """The commands of a block: without comments, continued lines joined."""
    joined = block.replace("\\\n", " ").splitlines()
    return [line for line in joined if shlex.split(line, comments=True)]


def attempt(line: str, prepared: Path, here: Path) -> None:
    """Raise an AssertionError unless the line is accepted."""
    words = shlex.split(line, comments=True)[1:]
    _files(words, prepared, here)
    out = io.StringIO()
    with no_rounds(), redirect_stdout(out), redirect_stderr(out):
        try:
            cli.main(words)
        except Accepted:
            pass
        except SystemExit as end:  # the doctor may well find something to do
            assert not end.code or words[0] == "doctor", f"{line}\n{out.getvalue()}"


def _files(words: list[str], prepared: Path, here: Path) -> None:
    """What the line takes to be there already."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 4)).astype("f"), rng.integers(0, 3, 2000)
    half = {"x_train": x, "y_train": y, "x_test": x[:40], "y_test": y[:40]}
    np.savez(here / "my_data.npz", **half)
    sweep = {"heat_map", "--per"} & {*words}
    kind = "sweep" if sweep else "run" if words[0] == "resume" else "comparison"
    reads = [word for word in words if word.startswith("runs/")]
    if "--config" in words:
        (config,) = [Path(word) for word in words if word.endswith("config.json")]
        kind, reads = "run", [str(config.parent)]
    for word in reads if words[0] in READS or "--config" in words else ():
        shutil.copytree(prepared / kind, here / word, dirs_exist_ok=True)
