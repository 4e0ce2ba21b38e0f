"""Where a member's rounds come from: the commands that ran them, with their commits."""

import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab import folders
from fedjax_mos.lab.result import Result
from fedjax_mos.machine import cores

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

_FILE = "provenance.json"
_UNKNOWN = "not recorded"


def as_command(words: Sequence[str]) -> str:
    """What was typed."""
    return shlex.join(["fedjax-mos", *words])


def origin_of(command: str, experiment: "Experiment") -> dict[str, str]:
    """What is told of rounds that this process runs."""
    versions = _versions(folders.config(experiment, "run"))
    return {
        "command": f"`{command}`",
        "commit": _commit() or "none (no git checkout)",
        "versions": f"{versions}, {cores()} cores",
    }


def note(folder: Path, origin: Mapping[str, str]) -> None:
    """Add an origin to those of a member's folder, unless it is there."""
    known = _origins(folder)
    if origin not in known:
        folders.write_json(folder / _FILE, [*known, origin])


def provenance(
    folder: Path, results: Mapping[str, Mapping[str, Result]], spent: float
) -> list[str]:
    """Commands, commits and versions of all members, wall time."""
    members = [f"{part}/{name}" for part, own in results.items() for name in own]
    found: dict[str, dict[str, list[str]]] = {}
    for member in members:
        for one in _origins(folder / member) or [_not_recorded(folder / member)]:
            for what, value in one.items():
                mine = found.setdefault(what, {}).setdefault(value, [])
                mine += [member] * (member not in mine)
    lines = [
        f"{what}: {value}" + _whose(own, members)
        for what, values in found.items()
        for value, own in values.items()
    ]
    every = [one for part in results.values() for one in part.values()]
    total = sum(float(one.frame["seconds"].max()) for one in every)
    return [
        *lines,
        f"wall time: {total / 60:.1f} min of rounds in all members, {spent / 60:.1f} "
        "min in this command",
        f"written: {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
    ]


def _whose(own: Sequence[str], members: Sequence[str]) -> str:
    return "" if len(own) == len(members) else f" ({', '.join(own)})"


def _origins(folder: Path) -> list[Mapping[str, str]]:
    path = folder / _FILE
    return folders.read_json(path) if path.exists() else []


def _not_recorded(folder: Path) -> dict[str, str]:
    versions = _versions(folders.read_json(folder / folders.CONFIG))
    return {"command": _UNKNOWN, "commit": _UNKNOWN, "versions": versions}


def _versions(made: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{n} {v}" for n, v in made["versions"].items())
    return f"{versions}; platform {made['platform']}"


def _commit() -> str | None:
    """Of the checkout that this package is run from; None: it is in none."""
    folder = files("fedjax_mos")

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        # A package that was installed may lie below somebody else's checkout.
        if not git("ls-files", "__init__.py"):
            return None
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + " with changes" * bool(changed)
    except OSError:
        return None
