"""The finished pieces of a sweep, in memory or in a folder that outlives it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.lab.folders import read_json, write_json
from fedjax_mos.lab.run_folder import is_empty

if TYPE_CHECKING:
    import pandas as pd

PLAN = "plan.json"


class Ledger:
    """Piece -> its history. A folder holds plan.json and one file per piece.

    A folder with the same plan is resumed, one with anything else is refused.
    """

    def __init__(self, plan: dict[str, Any], out: Path | None) -> None:
        self.out = out
        self.parts: dict[int, pd.DataFrame] = {}
        if out is not None:
            _claim(out, json.loads(json.dumps(plan, default=str)))
            self.parts = read_parts(out)

    def add(self, piece: int, history: "pd.DataFrame") -> None:
        """Record a finished piece; on disk it appears whole or not at all."""
        self.parts[piece] = history
        if self.out is not None:
            path = self.out / "pieces" / f"{piece:05}.parquet"
            partial = path.with_suffix(".partial")
            history.to_parquet(partial, index=False)
            os.replace(partial, path)


def read_parts(out: Path) -> "dict[int, pd.DataFrame]":
    """The pieces that a folder holds."""
    import pandas as pd

    paths = sorted((out / "pieces").glob("*.parquet"))
    return {int(path.stem): pd.read_parquet(path) for path in paths}


def assemble(
    labels: Sequence[dict[str, Any]], parts: "dict[int, pd.DataFrame]"
) -> "pd.DataFrame":
    """All histories as one tidy frame, in the order of the lanes."""
    import pandas as pd

    history = pd.concat(parts[piece] for piece in sorted(parts))
    history = history.sort_values(["lane", "round"], ignore_index=True)
    where = pd.DataFrame(labels).iloc[history.pop("lane")].reset_index(drop=True)
    return pd.concat([where, history], axis=1)


def _claim(out: Path, plan: dict[str, Any]) -> None:
    path = out / PLAN
    if path.exists():
        stored = read_json(path)
        other = [n for n in plan | stored if plan.get(n) != stored.get(n)]
        if other:
            hint = " (cut by width, or for another number of devices)"
            raise ValueError(
                f"out must be a new folder or one of the same sweep: {out} has another "
                f"{', '.join(other)}{hint if other == ['pieces'] else ''}"
            )
        return
    if not is_empty(out):
        raise FileExistsError(
            f"out must be a new folder or one of the same sweep: {out} is neither"
        )
    (out / "pieces").mkdir(parents=True)
    write_json(path, plan)
