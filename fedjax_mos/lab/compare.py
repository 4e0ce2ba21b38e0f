"""Experiments side by side."""

import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.engine.checkpoints import EVERY
from fedjax_mos.lab import folders, options, summaries
from fedjax_mos.lab.compile_together import compile_together
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.parts import default_parts
from fedjax_mos.lab.result import HISTORY, Result
from fedjax_mos.lab.run_folder import alone, is_empty
from fedjax_mos.lab.setting import Setting
from fedjax_mos.lab.showing import Shown

if TYPE_CHECKING:
    import pandas as pd


_AHEAD = 8  # members that are compiled before the first of them runs


@dataclasses.dataclass(frozen=True)
class Comparison(Shown):
    """Results by name."""

    members: dict[str, Result]

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
        self._write_table(Path(folder), target)
        self._write_picture(Path(folder))
        members = {name: one.experiment for name, one in self.members.items()}
        count = len(summaries.by_seed(next(iter(self.members.values())).frame))
        _write_config(Path(folder), members, count, target, self.complete)

    def _write_picture(self, folder: Path) -> None:
        self.curves().savefig(folder / "curves.png", dpi=120)

    def _write_table(self, folder: Path, target: float | None) -> None:
        self.table(target).to_csv(folder / "comparison.csv")

    @classmethod
    def read(cls, folder: Path | str) -> "Comparison":
        """What `write` wrote."""
        names = folders.read_json(Path(folder) / folders.CONFIG)["members"]
        done = [n for n in names if (Path(folder) / _file_name(n) / HISTORY).exists()]
        found = {n: Result.read(Path(folder) / _file_name(n)) for n in done}
        return cls({n: dataclasses.replace(r, title=n) for n, r in found.items()})


def compare(
    members: Mapping[str, Experiment],
    seeds: int = 5,
    *,
    out: Path | str | None = None,
    target: float | None = None,
    progress: bool = True,
    checkpoint_every: float = EVERY,
) -> Comparison:
    """Run every member with the same seeds.

    Members may differ in anything. Those on the same data see the same batches and,
    with the same sampler, the same cohorts. With `out`, results are written after every
    member, and the same call resumes a comparison that was ended. An interrupt (Ctrl-C)
    ends it with the member under way.
    """
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
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1: got {seeds}")
    if out is None:
        return _compare(members, seeds, None, target, progress, checkpoint_every)
    with alone(Path(out)):
        _claim(Path(out), members, seeds, target)
        return _compare(members, seeds, Path(out), target, progress, checkpoint_every)


def _compare(
    members: Mapping[str, Experiment],
    seeds: int,
    out: Path | None,
    target: float | None,
    progress: bool,
    checkpoint_every: float,
) -> Comparison:
    results: dict[str, Result] = {}
    for number, (name, member) in enumerate(members.items()):
        if number % _AHEAD == 0:
            ahead = dict([*members.items()][number : number + _AHEAD])
            todo = [one for n, one in ahead.items() if not _is_done(out, n, one)]
            compile_together(todo, seeds, progress=progress)
        if progress:
            print(f"{name} ({seeds} seeds)", file=sys.stderr)
        folder = None if out is None else out / _file_name(name)
        result = member.run(
            seeds,
            progress=progress,
            out=folder,
            target=target,
            picture=False,
            checkpoint_every=checkpoint_every,
        )
        results[name] = dataclasses.replace(result, title=name)
        if out is not None:
            Comparison(results)._write_table(out, target)
        if not result.complete:
            break
    found = Comparison(results)
    if out is not None:
        found._write_picture(out)
        whole = found.complete and len(results) == len(members)
        _write_config(out, members, seeds, target, whole)
    return found


def _claim(
    folder: Path, members: Mapping[str, Experiment], seeds: int, target: float | None
) -> None:
    """Make a folder this comparison's; one of another is refused."""
    path = folder / folders.CONFIG
    fresh = is_empty(folder)
    known = folders.read_json(path) if path.exists() else {}
    if not fresh and known.get("kind") != "comparison":
        raise FileExistsError(
            "out must be a new or empty folder, or one of the same comparison: "
            f"{folder} is not"
        )
    if not fresh and known["members"] != list(members):
        raise ValueError(
            f"out must be a folder of the same comparison: {folder} has the members "
            f"{', '.join(known['members'])}"
        )
    _write_config(folder, members, seeds, target, complete=False)


def _write_config(
    folder: Path,
    members: Mapping[str, Experiment | None],
    seeds: int,
    target: float | None,
    complete: bool,
) -> None:
    stored = {
        "kind": "comparison",
        "members": list(members),
        "complete": complete,
        "seeds": seeds,
        "target": target,
        "experiments": {n: folders.config(one, "run") for n, one in members.items()},
    }
    folders.write_json(folder / folders.CONFIG, stored)


def _is_done(out: Path | None, name: str, member: Experiment) -> bool:
    """Whether a member's folder says that it is complete."""
    path = Path() if out is None else out / _file_name(name) / folders.CONFIG
    if out is None or not path.exists():
        return False
    stored = folders.read_json(path)
    same = stored.get("experiment", {}).get("rounds") == member.rounds
    return bool(stored["complete"] and same)


def members_of(
    setting: Setting,
    names: Iterable[str],
    given: Mapping[str, Any],
    *,
    sampler: str = "ucs",
    seed: int = 0,
) -> dict[str, Experiment]:
    """Members by name that share a setting: ALGORITHM[/SAMPLER][:OPTION=VALUE,...].

    An option that is given apart goes to every member that has it; a member's own go
    before it.
    """
    shared = {f.name: getattr(setting, f.name) for f in dataclasses.fields(setting)}
    members, private = {}, {}
    for name in names:
        method, colon, words = name.partition(":")
        algorithm, _, own = method.partition("/")
        title = f"{algorithm}/{own or sampler}{colon}{words}"
        if title in members:
            raise ValueError(f"the member {title} is given twice")
        members[title] = Experiment(
            **shared, algorithm=algorithm, sampler=own or sampler, seed=seed
        )
        private[title] = options.parse(words.split(","), title) if words else {}
    known = {name: default_parts(member) for name, member in members.items()}
    for option in given:
        if not any(options.accepts(option, parts) for parts in known.values()):
            options.home(option, next(iter(known.values())))  # raises
    return {
        name: dataclasses.replace(
            member,
            options={k: v for k, v in given.items() if options.accepts(k, known[name])}
            | private[name],
        )
        for name, member in members.items()
    }


def _file_name(name: str) -> str:
    """A member's folder: what a file system might not take is a dash."""
    return re.sub(r"[^\w.=,+-]", "-", name)
