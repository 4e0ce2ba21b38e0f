"""Experiments side by side."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.engine.checkpoints import EVERY
from fedjax_mos.engine.endings import Stop
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab import folders, summaries
from fedjax_mos.lab.common_lr import unequal_lr
from fedjax_mos.lab.comparison_folder import claim, is_done, write_config
from fedjax_mos.lab.compile_together import compile_together
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.files import attempt, whole
from fedjax_mos.lab.result import HISTORY, Result
from fedjax_mos.lab.run_folder import given_back
from fedjax_mos.lab.showing import Shown
from fedjax_mos.lab.trackers import Track, check_trackers

if TYPE_CHECKING:
    import pandas as pd


_AHEAD = 8  # members that are compiled before the first of them runs


@dataclasses.dataclass(frozen=True)
class Comparison(Shown):
    """Results by name."""

    members: dict[str, Result]  #: name -> result

    @property
    def complete(self) -> bool:
        """Whether no member was interrupted."""
        return all(result.complete for result in self.members.values())

    @property
    def frame(self) -> "pd.DataFrame":
        """All rows, told apart by the column `method`."""
        import pandas as pd

        named = {name: result.frame for name, result in self.members.items()}
        return (
            pd.concat(named, names=["method"])
            .reset_index("method")
            .reset_index(drop=True)
        )

    def write(self, folder: Path | str, target: float | None = None) -> None:
        """A folder per member, comparison.csv, curves.png and config.json."""
        for name, result in self.members.items():
            # Without a picture: the comparison's shows all members.
            result.write(Path(folder) / _file_name(name), target, picture=False)
        members = {name: one.experiment for name, one in self.members.items()}
        count = len(summaries.by_seed(next(iter(self.members.values())).frame))
        _finish(self, Path(folder), members, count, target, self.complete)

    @classmethod
    def read(cls, folder: Path | str) -> "Comparison":
        """What `write` wrote."""
        names = folders.read_json(Path(folder) / folders.CONFIG)["members"]
        done = [n for n in names if (Path(folder) / _file_name(n) / HISTORY).exists()]
        if not done:
            raise ValueError(f"{folder} has no member that was finished")
        found = {n: Result.read(Path(folder) / _file_name(n)) for n in done}
        return cls({n: dataclasses.replace(r, title=n) for n, r in found.items()})


def compare(
    members: Mapping[str, Experiment],
    seeds: int = 5,
    *,
    out: Path | str | None = None,
    target: float | None = None,
    stop: Stop | None = None,
    progress: bool = True,
    checkpoint_every: float = EVERY,
    track: Track = (),
) -> Comparison:
    """Run every member with the same seeds.

    Members may differ in anything. Those on the same data see the same batches and,
    with the same sampler, the same cohorts. With `out`, results are written after every
    member, and the same call resumes a comparison that was ended. An interrupt (Ctrl-C)
    ends it with the member under way. `stop(frame)` may end each member's run, and
    `track` is told its rows, as in `Experiment.run`.
    """
    if not isinstance(members, Mapping):
        raise ValueError(
            'members must be a mapping of names to experiments, {"name": experiment}: '
            f"got a {type(members).__name__}"
        )
    if not members:
        raise ValueError("members must hold at least one experiment: got none")
    for name, member in members.items():
        if not isinstance(member, Experiment):
            raise ValueError(
                f"members must be experiments: {name} is a {type(member).__name__}"
            )
    folders_of: dict[str, str] = {}
    for name in members:
        first = folders_of.setdefault(_file_name(name), name)
        if first != name:
            raise ValueError(f"members {first} and {name} would share a folder")
    for member in members.values():
        member.check_seeds(seeds)
    if progress and (warning := unequal_lr(members)):
        print(warning, file=sys.stderr)
    more = {
        "target": target,
        "stop": stop,
        "progress": progress,
        "checkpoint_every": checkpoint_every,
        "track": check_trackers(track, out),
    }
    if out is None:
        return _compare(members, seeds, None, more)
    with alone(Path(out)) as out, given_back(out):
        claim(out, members, seeds, target)
        return _compare(members, seeds, out, more)


def _compare(
    members: Mapping[str, Experiment],
    seeds: int,
    out: Path | None,
    more: Mapping[str, Any],  # of `Experiment.run`
) -> Comparison:
    progress, target = more["progress"], more["target"]
    results: dict[str, Result] = {}
    for number, (name, member) in enumerate(members.items()):
        if number % _AHEAD == 0:
            ahead = dict([*members.items()][number : number + _AHEAD])
            todo = [
                one
                for n, one in ahead.items()
                if out is None or not is_done(out / _file_name(n), one)
            ]
            compile_together(todo, seeds, progress=progress)
        if progress:
            print(f"{name} ({seeds} seeds)", file=sys.stderr)
        folder = None if out is None else out / _file_name(name)
        result = member.run(seeds, out=folder, picture=False, **more)
        results[name] = dataclasses.replace(result, title=name)
        if not result.complete:
            break
    found = Comparison(results)
    if out is not None:
        done = found.complete and len(results) == len(members)
        attempt(lambda: _finish(found, out, members, seeds, target, done), out)
    return found


def _finish(
    found: Comparison,
    out: Path,
    members: Mapping[str, Experiment | None],
    seeds: int,
    target: float | None,
    complete: bool,
) -> None:
    """What a comparison's folder holds beside those of its members."""
    with whole(out / "comparison.csv") as path:
        found.table(target).to_csv(path)
    with whole(out / "curves.png") as path:
        found.curves().savefig(path, dpi=120)
    write_config(out, members, seeds, target, complete)


def _file_name(name: str) -> str:
    """A member's folder: what a file system might not take is a dash."""
    return re.sub(r"[^\w.=,+-]", "-", name)
