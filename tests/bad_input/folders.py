"""Folders of results, whole or with a file changed, given to what reads them."""

import json
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from tests.bad_input import harness
from tests.bad_input.files import damage, new_path
from tests.bad_input.harness import Input
from tests.bad_input.pools import Pool
from tests.bad_input.words import flag, wrong_now
from tests.lab import shown as made

ROOT: list[Path] = []  # where results are kept from process to process, if anywhere


@cache
def written(kind: str) -> Path:
    """A folder with results of one kind, made once."""
    folder = ROOT[0] / kind if ROOT else new_path(f"-{kind}")
    if folder.exists():
        return folder
    results: dict[str, Any] = {
        "run": lambda: made.comparison().members["fast"],
        "comparison": made.comparison,
        "sweep": made.grid,
        "tuning": made.tuned,
    }
    with harness.real_rounds():
        results[kind]().write(folder)
    return folder


KINDS = ("run", "comparison", "sweep", "tuning")
_SPREAD = Pool(str, ("std", "sem", "ci95"), ("var", ""))
_TABLE = {
    "form": Pool(str, ("text", "markdown", "csv", "latex"), ("pdf", "", "TEXT")),
    "metric": Pool(str, ("test_loss", "test_accuracy"), ("nope", "", "round")),
    "targets": Pool(float, ("0.5", "1"), ("x", "nan", "inf", "-inf")),
    "at": Pool(int, ("1", "2"), ("x", "1.5")),
    "spread": _SPREAD,
    "baseline": Pool(str, ("fast",), ("nope", "")),
}
_PLOT = {
    "x": Pool(str, ("round", "bits"), ("time", "")),
    "band": _SPREAD,
    "smooth": Pool(int, ("1", "2"), ("0", "-1", "x", "1.5")),
    "metrics": Pool(str, ("test_loss",), ("nope", "")),
    "out": Pool(
        str, ("a.png", "b.svg"), ("a.doc", "/dev/null/a.png", "no/such/a.png", "")
    ),
}


def show(rng: random.Random) -> Input:
    """`table` of runs and comparisons, now and then `plot`, with right folders."""
    command = "table" if rng.random() < 0.9 else "plot"
    folder = written(rng.choice(KINDS[:2]))
    words, wrong = [command, str(folder)], []
    for name, pool in (_TABLE if command == "table" else _PLOT).items():
        if rng.random() < 0.25:
            words += flag(rng, name, pool, wrong_now(rng), wrong)
    return Input(command, words, tuple(wrong))


def intact(rng: random.Random) -> Input:
    """What reads a whole folder, or resumes a finished one."""
    command = rng.choice(["report", "resume"])
    kind = rng.choice(KINDS if command == "report" else KINDS[:2])
    folder = new_path(f"-{kind}-copy")
    shutil.copytree(written(kind), folder)
    return Input(f"{command} of a folder", [command, str(folder)])


def damaged(rng: random.Random) -> Input:
    """Any command that reads a folder, of which a file is damaged or gone."""
    kind = rng.choice(KINDS)
    folder = new_path(f"-{kind}-copy")
    shutil.copytree(written(kind), folder)
    files = sorted(
        p for p in folder.rglob("*") if p.suffix in (".json", ".csv", ".npz")
    )
    path = rng.choice(files)
    how = rng.random()
    if how < 0.2:
        path.unlink()
    elif how < 0.5 and path.suffix == ".json":
        stored = json.loads(path.read_text())
        if isinstance(stored, dict):
            stored[rng.choice(sorted(stored))] = rng.choice([None, 5, "x", [], {}])
        path.write_text(json.dumps(stored))
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
    command = rng.choice(["table", "report", "resume", "table"])
    return Input(f"{command} of a damaged folder", [command, str(folder)], None)
