"""Folders that a command has begun, of which a file was changed, given to it again."""

import json
import random
import shutil
from functools import cache
from pathlib import Path

from tests.bad_input import harness
from tests.bad_input.files import damage, new_path
from tests.bad_input.harness import Input

_SMALL = "--clients 6 --cohort 2 --rounds 5 --steps 1 --model logistic"
_COMMANDS = {
    "run": "",
    "compare": "--algorithms fedavg fedmos --seeds 2",
    "sweep": "--over lr=0.1,0.2 --seeds 2",
    "search": "--over lr=0.1,0.2,0.3,0.4 --seeds 1",
    "tune": "--wrt lr --candidates 0",
}
_UPDATE = {
    "value": 0.5,
    "slope": [0.1],
    "means": {"lr": 0.1},
    "still": [],
    "norm": 0.1,
    "growth": 1.0,
    "unstable": "",
    "horizon": 5,
    "cost": 15,
    "seconds": 0.1,
}


def _words(command: str) -> list[str]:
    return [command, *_SMALL.split(), *_COMMANDS[command].split()]


@cache
def _begun(command: str, here: Path) -> Path:
    """A folder as it is when the first round begins, made once in a working folder."""
    folder = here / f"begun-{command}"
    given = Input(command, [*_words(command), "--out", str(folder)])
    found = harness.outcome(given)
    assert found.accepted, found
    if command == "tune":
        (folder / "updates" / "00000.json").write_text(json.dumps(_UPDATE))
    return folder


def onto(rng: random.Random) -> Input:
    """The same command with a folder that is damaged; now and then it is not."""
    command = rng.choice(sorted(_COMMANDS))
    folder = new_path(f"-{command}")
    shutil.copytree(_begun(command, Path.cwd()), folder)
    words = [*_words(command), "--out", str(folder)]
    path = rng.choice(sorted(p for p in folder.rglob("*.json")))
    how = rng.random()
    if how < 0.15:
        return Input(f"{command} onto its folder", words)
    if how < 0.4:
        path.write_text(rng.choice(["", "{}", "[]", "7", "null", '{"kind": "run"}']))
    elif how < 0.7:
        stored = json.loads(path.read_text())
        if isinstance(stored, dict):
            stored[rng.choice(sorted(stored))] = rng.choice([None, 5, "x", [], {}])
        path.write_text(json.dumps(stored))
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
    return Input(f"{command} onto a damaged folder", words, None)
