"""Runs and comparisons resumed from their folders."""

import dataclasses
from pathlib import Path

from fedjax_mos.lab import folders
from fedjax_mos.lab.compare import Comparison, compare
from fedjax_mos.lab.comparison_folder import asked_in, number_in
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.result import Result
from fedjax_mos.lab.run_folder import repeated


def resume(
    folder: Path | str, rounds: int | None = None, *, progress: bool = True
) -> Result | Comparison:
    """Resume a run or a comparison from its last checkpoint, to `rounds` rounds.

    A finished one is read.
    """
    folder = Path(folder)
    try:
        stored = folders.read_json(folder / folders.CONFIG)
        kind = stored["kind"]
    except folders.DAMAGED as error:
        raise ValueError(f"{folder} holds no run to resume: {error}") from error
    if kind == "run":
        experiment, seeds, _ = repeated(folder / folders.CONFIG)
        more = _with_rounds(experiment, rounds)
        target = number_in(stored.get("asked_target"))
        return more.run(seeds, out=folder, target=target, progress=progress)
    if kind != "comparison" or "experiments" not in stored:
        raise ValueError(
            f"{folder} holds a {kind}: give the same command again to resume it"
        )
    said = asked_in(folder / folders.CONFIG)
    members = {name: _with_rounds(one, rounds) for name, one in said.members.items()}
    return compare(
        members, said.seeds, out=folder, target=said.target, progress=progress
    )


def _with_rounds(experiment: Experiment, rounds: int | None) -> Experiment:
    if rounds is None:
        return experiment
    return dataclasses.replace(experiment, rounds=rounds)
