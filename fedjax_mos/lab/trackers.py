"""Trackers: who is told the rows of a run while it is under way.

The engine knows nothing of them. Between blocks of rounds it asks `stop(frame)` whether
that is enough; a tracker looks at the same frame, on the host, and says nothing.
"""

import math
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.engine.endings import Stop
from fedjax_mos.lab import folders
from fedjax_mos.lab.catalog.entry import check_name
from fedjax_mos.lab.files import whole
from fedjax_mos.lab.setting_checks import as_tuple
from fedjax_mos.lab.tracker_writers import WRITERS, Log, Writer
from fedjax_mos.processes import is_first

if TYPE_CHECKING:
    import pandas as pd

Track = str | Log | Sequence[str | Log]
Tell = Callable[["pd.DataFrame"], None]
_TOLD = "track.json"  # who was told, and up to which round
_FILES = ("csv", "parquet")
TRACKERS = (*_FILES, *WRITERS)


def check_trackers(track: Track, out: Path | str | None) -> tuple[str | Log, ...]:
    """The trackers one by one, or a ValueError for what cannot be told anything."""
    several = [track] if isinstance(track, str) or callable(track) else track
    given = as_tuple("track", several)
    for name in given:
        if callable(name):
            continue
        if not isinstance(name, str):
            raise ValueError(f"track must hold names or functions: got {name!r}")
        check_name("track", TRACKERS, name)
        package = WRITERS[name].package if name in WRITERS else "pandas"
        if find_spec(package) is None:
            raise ValueError(
                f"track {name} needs {package}, which is not installed: "
                f"pip install '.[{name}]' in the clone"
            )
    if given and out is None:
        raise ValueError("track needs out, a folder that knows what was told: got None")
    return tuple(dict.fromkeys(given))


def tracked_in(folder: Path) -> tuple[str, ...]:
    """The trackers, by name, of a run or of any member of a comparison."""
    found = [*folder.glob(_TOLD), *folder.glob(f"*/{_TOLD}")]
    told = [name for path in sorted(found) for name in _read(path)[1]]
    return tuple(name for name in dict.fromkeys(told) if name in TRACKERS)


@contextmanager
def tracking(
    track: Sequence[str | Log], folder: Path, config: Mapping[str, Any]
) -> Iterator[Tell]:
    """Open trackers, give a function that tells them a frame, and close them.

    One that fails while the run is under way is said and told nothing more.
    """
    marks = _Marks(folder / _TOLD)
    opened: dict[str, tuple[Tell, Callable[[], None]]] = {}

    def attempt(name: str, what: Callable[[], None]) -> None:
        try:
            what()
        except Exception as error:  # of any library, which must not cost the run
            opened.pop(name, None)
            print(f"track {name} is told nothing more: {error}", file=sys.stderr)

    def tell(frame: "pd.DataFrame") -> None:
        for name, (log, _) in [*opened.items()]:
            attempt(name, partial(log, frame))

    try:
        for number, one in enumerate(track if is_first() else (), 1):
            name = one if isinstance(one, str) else f"function {number}"
            opened[name] = _opened(one, name, folder, marks, config)
        yield tell
    finally:
        for name, (_, close) in [*opened.items()]:
            attempt(name, close)


def telling(tell: Tell, stop: Stop | None) -> Stop:
    """`stop`, which is asked after the trackers were told the frame."""

    def enough(frame: "pd.DataFrame") -> bool:
        tell(frame)
        return stop is not None and bool(stop(frame))

    return enough


class _Marks:
    """Up to which round each tracker was told, kept in the run's folder.

    `id` is the run's own, by which services find it again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id, self.told = uuid.uuid4().hex, dict[str, int]()
        if path.exists():
            self.id, self.told = _read(path)

    def set(self, name: str, last: int) -> None:
        # A run that was killed may be resumed from before what was told.
        self.told[name] = max(last, self.told.get(name, 0))
        folders.write_json(self.path, {"id": self.id, "told": self.told})


def _opened(
    track: str | Log,
    name: str,
    folder: Path,
    marks: _Marks,
    config: Mapping[str, Any],
) -> tuple[Tell, Callable[[], None]]:
    """Functions that tell a tracker the frame so far, and that it is over."""
    if track in _FILES:
        path = folder / f"track.{track}"

        def write(frame: "pd.DataFrame") -> None:
            with whole(path) as partial:
                getattr(frame, f"to_{track}")(partial, index=False)
            marks.set(name, int(frame["round"].max()))

        return write, lambda: None
    told = marks.told.setdefault(name, 0)
    if isinstance(track, str):
        try:
            writer = WRITERS[track].open(folder, marks.id, told, config)
        except Exception as error:  # such as a login that is missing
            raise ValueError(f"track {track} could not be opened: {error}") from error
    else:
        writer = Writer(track)

    def log(frame: "pd.DataFrame") -> None:
        # A resumed run comes with rows that were told before it was ended.
        new = frame[frame["round"] > marks.told[name]]
        for number in new["round"].unique().tolist():
            writer.log(number, _values(new[new["round"] == number]))
        writer.flush()
        marks.set(name, int(frame["round"].max()))

    return log, writer.close


def _values(rows: "pd.DataFrame") -> dict[str, float]:
    """The finite numbers of one round; of several seeds COLUMN/seed_SEED."""
    found = {}
    for row in rows.to_dict("records"):
        end = f"/seed_{row.pop('seed')}" if "seed" in row else ""
        del row["round"]
        for name, value in row.items():
            if isinstance(value, bool | int | float) and math.isfinite(value):
                found[f"{name}{end}"] = float(value)
    return found


def _read(path: Path) -> tuple[str, dict[str, int]]:
    """The id and the marks that `_Marks` wrote, or a ValueError."""
    try:
        known = folders.read_json(path)
        told = {str(name): last for name, last in known["told"].items()}
        if not all(type(last) is int for last in told.values()):
            raise ValueError("rounds must be whole numbers")
        return str(known["id"]), told
    except folders.DAMAGED as error:
        raise ValueError(f"{path} is damaged ({error!r})") from error
