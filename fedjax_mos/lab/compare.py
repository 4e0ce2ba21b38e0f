"""Experiments side by side."""

import dataclasses
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab import folders, options
from fedjax_mos.lab.compile_together import compile_together
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.parts import default_parts
from fedjax_mos.lab.result import Result
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
        """A folder per member, comparison.csv and curves.png."""
        for name in self.members:
            self._write_member(name, Path(folder), target)
        self._write_table(Path(folder), target)
        self._write_picture(Path(folder))

    def _write_picture(self, folder: Path) -> None:
        self.curves().savefig(folder / "curves.png", dpi=120)

    def _write_member(self, name: str, folder: Path, target: float | None) -> None:
        # Without a picture: the comparison's shows all members.
        self.members[name].write_data(folder / _file_name(name), target)

    def _write_table(self, folder: Path, target: float | None) -> None:
        self.table(target).to_csv(folder / "comparison.csv")
        stored = {"kind": "comparison", "members": list(self.members)}
        folders.write_json(folder / folders.CONFIG, stored)

    @classmethod
    def read(cls, folder: Path | str) -> "Comparison":
        """What `write` wrote."""
        names = folders.read_json(Path(folder) / folders.CONFIG)["members"]
        return cls({n: Result.read(Path(folder) / _file_name(n)) for n in names})


def compare(
    members: Mapping[str, Experiment],
    seeds: int = 5,
    *,
    out: Path | str | None = None,
    target: float | None = None,
    progress: bool = True,
) -> Comparison:
    """Run every member with the same seeds.

    Members may differ in anything. Those on the same data see the same batches and,
    with the same sampler, the same cohorts. With `out`, results are written after every
    member. An interrupt (Ctrl-C) ends the comparison with the member under way.
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
    results: dict[str, Result] = {}
    for number, (name, member) in enumerate(members.items()):
        if number % _AHEAD == 0:
            ahead = [*members.values()][number : number + _AHEAD]
            compile_together(ahead, seeds, progress=progress)
        if progress:
            print(f"{name} ({seeds} seeds)", file=sys.stderr)
        result = member.run(seeds, progress=progress)
        results[name] = dataclasses.replace(result, title=name)
        if out is not None:
            done = Comparison(results)
            done._write_member(name, Path(out), target)
            done._write_table(Path(out), target)
        if not result.complete:
            break
    found = Comparison(results)
    if out is not None:
        found._write_picture(Path(out))
    return found


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
