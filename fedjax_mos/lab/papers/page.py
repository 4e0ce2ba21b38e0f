"""A reproduced card as one page, and where its numbers come from."""

import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files

from fedjax_mos.lab import folders
from fedjax_mos.lab.citation import short
from fedjax_mos.lab.papers.card import Card, Part
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.result import Result
from fedjax_mos.machine import cores


def page(
    card: Card,
    scale: str,
    parts: Sequence[Part],
    tables: Mapping[str, Printed],
    about: Sequence[str],
) -> str:
    """Markdown."""
    lines = [
        f"# {card.name}: {card.title}",
        "",
        f"{card.source} of {short(card.cite)}.",
    ]
    lines += ["", f"**{scale}**"]
    for part in parts:
        lines += ["", f"## {part.title}", "", tables[part.name].markdown()]
        if part.assumed:
            lines += ["", f"Assumed: {part.assumed}"]
    if card.assumed:
        lines += ["", "## Assumed", "", card.assumed]
    if about:
        lines += ["", "## Provenance", "", *(f"* {line}" for line in about)]
    return "\n".join(lines)


def provenance(
    command: str, results: Mapping[str, Mapping[str, Result]], spent: float
) -> list[str]:
    """Command, commit, versions, wall time."""
    every = [one for part in results.values() for one in part.values()]
    stored = folders.config(every[0].experiment, "run")
    versions = ", ".join(f"{n} {v}" for n, v in stored["versions"].items())
    total = sum(float(one.frame["seconds"].max()) for one in every)
    return [
        f"command: `{command}`",
        f"commit: {commit() or 'none (no git checkout)'}",
        f"versions: {versions}; platform {stored['platform']}, {cores()} cores",
        f"wall time: {total / 60:.1f} min of rounds in all members, {spent / 60:.1f} "
        "min in this command",
        f"written: {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC",
    ]


def as_command(words: Sequence[str]) -> str:
    """What was typed."""
    return shlex.join(["fedjax-mos", *words])


def commit() -> str | None:
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
