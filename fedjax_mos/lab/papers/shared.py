"""Runs that several cards have: what one has finished the others take over."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from fedjax_mos.engine.endings import Stop
from fedjax_mos.lab import folders
from fedjax_mos.lab.comparison_folder import is_done
from fedjax_mos.lab.files import PARTIAL

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

CARD = "card"  # the name of a card's page, table and picture in its folder
_LEFT = (".*", "checkpoints", "kept")  # what a finished run no longer needs


def take_over(
    own: Path, experiment: "Experiment", seeds: int, stop: Stop | None = None
) -> Path | None:
    """Copy the same finished run to the new folder `own`, and say from where.

    It is looked for in the folders of cards beside that of `own`, CARD/PART/MEMBER.
    """
    if own.exists():
        return None
    beside = own.parents[2].glob(f"*/{CARD}.md")
    members = (path for page in beside for path in page.parent.glob("*/*"))
    same = (m for m in sorted(members) if _same(m, experiment, seeds, stop))
    found = next(same, None)
    if found is None:
        return None
    partial = own.with_name(f"{PARTIAL}{own.name}")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(found, partial, ignore=shutil.ignore_patterns(*_LEFT))
    os.replace(partial, own)
    return found


def _same(
    folder: Path, experiment: "Experiment", seeds: int, stop: Stop | None
) -> bool:
    """Whether a folder has this very run, of the same data."""
    if not is_done(folder, experiment):
        return False
    stored = folders.read_json(folder / folders.CONFIG)
    wanted = (seeds, folders.data_hash(experiment), folders.as_json(stop))
    return (stored["seeds"], stored["data"], stored.get("stop")) == wanted
