"""Finished pieces of a sweep or search, in memory or in a folder that outlives it."""

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos._version import __version__
from fedjax_mos.engine.checkpoints import EVERY, Checkpoints, differences
from fedjax_mos.folder_lock import refused
from fedjax_mos.lab.earlier import DEFAULTS
from fedjax_mos.lab.files import attempt, whole
from fedjax_mos.lab.folders import DAMAGED, config, data_hash, read_json, write_json
from fedjax_mos.lab.run_folder import is_empty
from fedjax_mos.lab.structure import data_structure

if TYPE_CHECKING:
    import pandas as pd

    from fedjax_mos.lab.experiment import Experiment

PLAN = "plan.json"


class Ledger:
    """Piece -> its history. A folder holds plan.json and one file per piece.

    A folder with the same plan is resumed, one with anything else is refused.
    """

    def __init__(
        self, plan: dict[str, Any], out: Path | None, every: float = EVERY
    ) -> None:
        self.out, self.every = out, every
        self.parts: dict[int, pd.DataFrame] = {}
        if out is not None:
            claim(out, plan, "pieces")
            self.parts = read_parts(out)

    def add(self, piece: int, history: "pd.DataFrame", lasting: bool = True) -> None:
        """Record a finished piece; on disk it appears whole or not at all.

        One that is not `lasting`, since what continues it could not be kept, is run
        again by the next process.
        """
        self.parts[piece] = history
        if self.out is None or not lasting:
            return
        path = self.out / "pieces" / f"{piece:05}.parquet"
        attempt(lambda: write_parquet(path, history), self.out)
        if path.exists():
            shutil.rmtree(self._under_way(piece), ignore_errors=True)

    def checkpoints(self, piece: int) -> Checkpoints | None:
        """Where the piece under way is kept from time to time, if there is a folder.

        Its plan says what it is of.
        """
        if self.out is None:
            return None
        return Checkpoints(self._under_way(piece), every=self.every)

    def _under_way(self, piece: int) -> Path:
        return Path(self.out or "") / "checkpoints" / f"{piece:05}"


def write_parquet(path: Path, frame: "pd.DataFrame") -> None:
    """A frame as a file that appears whole or not at all."""
    with whole(path) as partial:
        frame.to_parquet(partial, index=False)


def read_parts(out: Path) -> "dict[int, pd.DataFrame]":
    """The pieces that a folder holds; one that was damaged is as if it were not."""
    import pandas as pd

    found = {}
    for path in sorted((out / "pieces").glob("[0-9]*.parquet")):
        try:
            found[int(path.stem)] = pd.read_parquet(path)
        except (OSError, ValueError) as error:
            print(f"{path} is damaged and not used: {error}", file=sys.stderr)
    return found


def assemble(
    labels: Sequence[dict[str, Any]], parts: "dict[int, pd.DataFrame]"
) -> "pd.DataFrame":
    """All histories as one tidy frame, in the order of the lanes."""
    import pandas as pd

    history = pd.concat(parts[piece] for piece in sorted(parts))
    history = history.sort_values(["lane", "round"], ignore_index=True)
    where = pd.DataFrame(labels).iloc[history.pop("lane")].reset_index(drop=True)
    return pd.concat([where, history], axis=1)


def plan_of(
    kind: str,
    experiment: "Experiment",
    runs: "Iterable[Experiment]" = (),
    **more: Any,
) -> dict[str, Any]:
    """All that the contents of a folder depend on: what is run, on which data.

    The `runs` may have other data than the experiment.
    """
    every = {data_structure(one): one for one in (experiment, *runs)}
    return {
        "kind": kind,
        "version": __version__,
        "data": [data_hash(one) for one in every.values()],
        "experiment": config(experiment, kind)["experiment"],
        "own": experiment.own,
        **more,
    }


def claim(out: Path, plan: dict[str, Any], inside: str) -> None:
    """Make `out` the folder of this plan, with a folder `inside`, or find it there.

    One of another plan is refused, and so are somebody's files.
    """
    path = out / PLAN
    plan = json.loads(json.dumps(plan, default=str))
    wanted = f"out must be a new folder or one of the same {plan['kind']}"
    if path.exists():
        _check_same(path, plan, wanted)
    elif not is_empty(out):
        raise FileExistsError(f"{wanted}: {out} is neither")
    with refused(out):
        if not path.exists():
            write_json(path, plan)
        (out / inside).mkdir(exist_ok=True)


def _check_same(path: Path, plan: dict[str, Any], wanted: str) -> None:
    """Refuse a folder of another plan; another version is only said."""
    try:
        stored = read_json(path)
        version, later = stored.pop("version"), [*stored.pop("resumed_with", [])]
        if "experiment" in stored:
            stored["experiment"] = DEFAULTS | stored["experiment"]
    except DAMAGED as error:
        raise ValueError(f"{wanted}: {path} is damaged ({error})") from error
    mine = {name: value for name, value in plan.items() if name != "version"}
    other = [n for n in mine | stored if mine.get(n) != stored.get(n)]
    if other == ["pieces"]:
        raise ValueError(
            f"{wanted}: in {path.parent} pieces are cut by another width, or for "
            "another number of devices"
        )
    if other:
        # Of long lists the first entry that differs says enough.
        text = differences(
            {n: _first(stored.get(n), mine.get(n)) for n in other},
            {n: _first(mine.get(n), stored.get(n)) for n in other},
        )
        raise ValueError(f"{wanted}: in {path.parent} {text}")
    if version != __version__:
        later = list(dict.fromkeys([*later, __version__]))
        with refused(path.parent):
            write_json(path, stored | {"version": version, "resumed_with": later})
        print(
            f"{path} was written by version {version} (now {__version__}): numbers "
            "may differ in their last digits",
            file=sys.stderr,
        )


def _first(one: Any, other: Any) -> Any:
    """Of a list the first entry that is not the other's (None: there are fewer)."""
    if not isinstance(one, list) or not isinstance(other, list):
        return one
    pairs = zip(one, other, strict=False)
    return next((mine for mine, theirs in pairs if mine != theirs), len(one))
