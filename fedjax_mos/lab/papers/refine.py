"""Crossings of targets to the round, where a run was evaluated every few rounds only.

The rounds before the first crossing that was seen are run once more, from a checkpoint
where one was kept, and evaluated one by one: a round's randomness is a function of its
number, so they are the same rounds.
"""

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.engine.block import MOST
from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.endings import INTERRUPTED, Stop
from fedjax_mos.lab import summaries
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.files import whole
from fedjax_mos.lab.papers.card import WINDOW, Column, Part
from fedjax_mos.lab.papers.provenance import note
from fedjax_mos.lab.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

_FILE, _KEPT = "refined.csv", "kept"
_NEVER = float("inf")


@dataclasses.dataclass(frozen=True)
class AllReached:
    """A `stop`: every seed has reached every target."""

    columns: tuple[Column, ...]

    def __call__(self, frame: "pd.DataFrame") -> bool:
        known = all(column.metric in frame for column in self.columns)
        return known and not _missing(frame, self.columns)


def stop_of(part: Part) -> Stop | None:
    """What ends the runs of a part before their last round."""
    return AllReached(part.columns) if part.until_targets else None


class Keeper:
    """A `stop` that keeps the checkpoints before crossings, and asks another one.

    A run's own are only the latest two. Those that may still be needed are linked to a
    folder beside them, each in one of its own.
    """

    def __init__(
        self, folder: Path, columns: Sequence[Column], decides: Stop | None = None
    ) -> None:
        self.folder, self.columns, self.decides = folder, columns, decides

    def __call__(self, frame: "pd.DataFrame") -> bool:
        now = int(frame["round"].max())
        for path in _numbered(self.folder / "checkpoints"):
            goal = self.folder / _KEPT / path.name / path.name
            if not goal.exists():
                _keep(path, goal)
        kept = _numbered(self.folder / _KEPT)
        # A target that is not reached yet may be in any round of the next block.
        open_ends = [now + 1] if _missing(frame, self.columns) else []
        ends = [*crossings(frame, self.columns), *open_ends]
        needed = {_before(kept, end - WINDOW) for end in ends}
        for path in kept:
            if path not in needed and int(path.name) <= now - WINDOW - MOST:
                shutil.rmtree(path)
        return self.decides is not None and self.decides(frame)


def crossings(frame: "pd.DataFrame", columns: Sequence[Column]) -> list[int]:
    """Rounds in which some seed was first seen beyond a column's target."""
    found = set(_rounds_to_targets(frame, columns))
    return sorted(int(at) for at in found if not np.isnan(at))


def refined(
    experiment: Experiment,
    seeds: int,
    frame: "pd.DataFrame",
    part: Part,
    folder: Path,
    origin: Mapping[str, str] | None,
    *,
    progress: bool = True,
) -> "pd.DataFrame":
    """`frame` with the `WINDOW` rounds before every crossing of a part evaluated.

    Those that are missing are run as the `origin` says; without one they stay so:
    another process may be at it.
    """
    import pandas as pd

    path = folder / _FILE
    known = [pd.read_csv(path)] if path.exists() else []
    rounds = {at for rows in known for at in rows["round"]}
    if origin is not None and (missing := _wanted(frame, part.columns) - rounds):
        note(folder, origin)
        own = RunFolder(folder, experiment, seeds, stop=stop_of(part))
        known.append(_rerun(experiment, seeds, missing, own, progress))
        with whole(path) as partial:
            pd.concat(known).to_csv(partial, index=False)
    if origin is not None:
        shutil.rmtree(folder / _KEPT, ignore_errors=True)
    if not path.exists():
        return frame
    fine = pd.read_csv(path)  # a float32 read back is the same number every time
    index = ["seed", "round"]
    fine = fine.drop_duplicates(index).set_index(index)
    return frame.set_index(index).combine_first(fine).reset_index()[[*frame]]


def _wanted(frame: "pd.DataFrame", columns: Sequence[Column]) -> set[int]:
    """Rounds before crossings that were not evaluated."""
    metrics = [c.metric for c in columns if c.target is not None and c.metric in frame]
    if not metrics:
        return set()
    known = set(frame["round"][frame[metrics[0]].notna()])
    near = {
        at
        for end in crossings(frame, columns)
        for at in range(max(1, end - WINDOW), end)
    }
    return near - known


def _missing(frame: "pd.DataFrame", columns: Sequence[Column]) -> bool:
    """Whether some seed has yet to reach some target."""
    return bool(np.isnan(_rounds_to_targets(frame, columns)).any())


def _rounds_to_targets(frame: "pd.DataFrame", columns: Sequence[Column]) -> list[float]:
    """Of every column that counts them and every seed; NaN: not reached yet."""
    return [
        summaries.rounds_to_target(rows, column.target, column.metric)
        for column in columns
        if column.target is not None and column.metric in frame
        for rows in summaries.by_seed(frame).values()
    ]


def _rerun(
    experiment: Experiment, seeds: int, rounds: set[int], of: RunFolder, progress: bool
) -> "pd.DataFrame":
    """The metrics of these rounds, for all seeds."""
    import pandas as pd

    made = experiment.build(lanes=seeds)
    start = np.arange(experiment.seed, experiment.seed + seeds, dtype=np.int32)
    own = of.checkpoints(_NEVER)
    frames, (state, key), done = [], made.begin(start), 0
    for begin, end in _stretches(rounds):
        kept = _before(_numbered(of.folder / _KEPT), begin - 1)
        if kept is not None and int(kept.name) > done:
            (state, key), done = made.begin(start), 0
        if begin - 1 > done:
            back = None
            if kept is not None and not done:
                back = Checkpoints(kept, own.about, _NEVER, unsaid=own.unsaid)
            state, frame = made.run(
                state, key, begin - 1 - done, every=begin, progress=progress,
                checkpoints=back,
            )  # fmt: skip
            _check_whole(frame)
        state, frame = made.run(state, key, end + 1 - begin, progress=progress)
        _check_whole(frame)
        frames.append(frame)
        done = end
    fine = pd.concat(frames)
    metrics = [name for name in summaries.metrics_of(fine) if name in made.metrics()]
    fine = fine.assign(seed=fine["lane"] + experiment.seed)
    return fine[["seed", "round", *metrics]]


def _check_whole(frame: "pd.DataFrame") -> None:
    """Pass an interrupt on: what is kept stays, and the next call does it again."""
    if frame.attrs["ended"] == INTERRUPTED:
        raise KeyboardInterrupt


def _stretches(rounds: set[int]) -> list[tuple[int, int]]:
    """First and last of each run of rounds, those evaluated in between included.

    >>> _stretches({3, 4, 6, 7, 40})
    [(3, 7), (40, 40)]
    """
    out: list[tuple[int, int]] = []
    for at in sorted(rounds):
        if out and at - out[-1][1] <= WINDOW:
            out[-1] = (out[-1][0], at)
        else:
            out.append((at, at))
    return out


def _numbered(folder: Path) -> list[Path]:
    """Checkpoints, the latest last."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdigit())


def _before(paths: Sequence[Path], round: int) -> Path | None:
    """The latest that is not after a round."""
    found = [path for path in paths if int(path.name) <= round]
    return found[-1] if found else None


def _keep(path: Path, goal: Path) -> None:
    """A copy; none where the disk refuses: rounds then begin earlier."""
    try:
        shutil.copytree(path, goal, copy_function=_link)
    except OSError:
        shutil.rmtree(goal, ignore_errors=True)


def _link(source: str, goal: str) -> None:
    """The same file under another name, or a copy where that cannot be."""
    try:
        os.link(source, goal)
    except OSError:
        shutil.copy2(source, goal)
