"""What a run leaves behind: one row per round, collected block by block."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedjax_mos.engine.block import Block
from fedjax_mos.processes import on_host
from fedjax_mos.types import PyTree

if TYPE_CHECKING:
    import pandas as pd


_SHOWN = ("train_loss", "test_accuracy")


class History:
    """Collects blocks on the host."""

    def __init__(self, lanes: bool, first: int) -> None:
        self.lanes = lanes
        self.first = first
        self.rounds = 0
        self.start = time.perf_counter()
        self.parts: list[dict[str, np.ndarray]] = []  # columns [lanes, rounds]
        self.last: dict[str, str] = {}  # for a line of progress
        self.bits = 0
        self.owed = {"bits_up": np.zeros(1, int), "bits_down": np.zeros(1, int)}
        self.metrics: list[str] = []  # columns that evaluations fill

    def charge(self, bits_up: list[int], bits_down: list[int]) -> None:
        """Bits [lanes] that count in the next round."""
        self.owed = {"bits_up": np.array(bits_up), "bits_down": np.array(bits_down)}

    def evaluated(self, values: PyTree) -> None:
        """Put `values` into the last round."""
        part = self.parts[-1]
        for name, value in on_host(values).items():
            part.setdefault(name, np.full(part["bits_up"].shape, np.nan))
            part[name][:, -1] = value

    def add(self, out: Block, length: int, evaluated: np.ndarray) -> None:
        """Record a block of `length` rounds, some of which were `evaluated`."""
        # The one transfer of the block.
        block = jax.tree.map(_plain, on_host(out))
        if not self.lanes:
            block = jax.tree.map(lambda leaf: leaf[None], block)
        block = jax.tree.map(lambda leaf: leaf[:, :length], block)
        lanes, flags = len(block.bits_up), evaluated[:length]
        columns = {f"local_{name}": v for name, v in block.metrics.items()}
        wrong = ~block.finite
        for name, value in columns.items():
            wrong = wrong | (name.endswith("loss") & ~np.isfinite(value))
        self.metrics = list(block.evaluated)
        for name, value in block.evaluated.items():
            columns[name] = np.where(flags, value, np.nan)
            wrong = wrong | (name.endswith("loss") & flags & ~np.isfinite(value))
        columns |= {n: as_cells(v) for n, v in (block.reported or {}).items()}
        columns["bits_up"] = block.bits_up.sum(-1, dtype=np.int64)
        columns["bits_down"] = block.bits_down.sum(-1, dtype=np.int64)
        for name, bits in self.owed.items():
            columns[name][:, 0] += bits
        self.charge([0], [0])
        columns["seconds"] = np.full((lanes, length), np.nan)
        columns["seconds"][:, -1] = self.seconds
        columns["diverged"] = (
            np.maximum.accumulate(wrong, axis=1) | self.diverged[:, None]
        )
        self.parts.append(columns)
        self.rounds += length
        values = block.evaluated
        shown = [name for name in _SHOWN if name in values] or list(values)[:2]
        if flags.any():
            for name in shown:
                self.last[name] = f"{float(values[name][:, flags][:, -1].mean()):.4g}"
        self.bits += int(columns["bits_up"].sum() + columns["bits_down"].sum())
        self.last["Mbit"] = f"{self.bits / lanes / 1e6:.4g}"

    @property
    def seconds(self) -> float:
        """Since the run began, without the time between its parts."""
        return time.perf_counter() - self.start

    @property
    def diverged(self) -> np.ndarray:
        """[lanes] Whether a loss or a parameter has been no finite number."""
        return self.parts[-1]["diverged"][:, -1] if self.parts else np.zeros(1, bool)

    def columns(self) -> dict[str, np.ndarray]:
        """All columns [lanes, rounds] so far, as they were recorded."""
        # A block without an evaluation lacks its columns.
        return {
            name: np.concatenate(
                [
                    part.get(name, np.full(part["bits_up"].shape, np.nan))
                    for part in self.parts
                ],
                axis=1,
            )
            for name in max(self.parts, key=len)
        }

    def restore(
        self, columns: Mapping[str, np.ndarray], evaluations: list[str]
    ) -> None:
        """Resume from what `columns` gave, in this process or in an earlier one."""
        found = {name: np.asarray(value) for name, value in columns.items()}
        self.parts, self.metrics = [found], list(evaluations)
        self.rounds = found["bits_up"].shape[1]
        self.bits = int(found["bits_up"].sum() + found["bits_down"].sum())
        self.start = time.perf_counter() - float(np.nanmax(found["seconds"]))

    def forget_extra(self, every: int, last: int) -> None:
        """Blank what was evaluated only because an earlier run ended there."""
        done = self.first + 1 + np.arange(self.rounds)
        extra = (done % every != 0) & (done != last)
        for name in self.metrics:
            for part in self.parts:
                part[name][:, extra] = np.nan

    def frame(self) -> "pd.DataFrame":
        import pandas as pd

        columns = self.columns()
        lanes, length = columns["bits_up"].shape
        for name in ("bits_up", "bits_down"):
            columns[name] = columns[name].cumsum(axis=1)
        columns["seconds"] = _spread(columns["seconds"])
        index = {
            "lane": np.repeat(np.arange(lanes), length),
            "round": np.tile(self.first + 1 + np.arange(length), lanes),
        }
        flat = {name: value.reshape(-1) for name, value in columns.items()}
        frame = pd.DataFrame(index | flat)
        return frame if self.lanes else frame.drop(columns="lane")


def _plain(values: np.ndarray) -> np.ndarray:
    """In a type that NumPy has: bfloat16 as float32, the same numbers."""
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def as_cells(values: np.ndarray) -> np.ndarray:
    """Values [lanes, rounds, ...] as cells [lanes, rounds]; an array is one cell."""
    if values.ndim == 2:
        return values
    cells = np.empty(values.shape[:2], object)
    for index in np.ndindex(cells.shape):
        cells[index] = values[index]
    return cells


def _spread(seconds: np.ndarray) -> np.ndarray:
    """Times are known at the end of a visit; its rounds share them evenly."""
    rounds = np.arange(1, seconds.shape[1] + 1)
    known = ~np.isnan(seconds[0])
    ends = np.concatenate([[0], rounds[known]])
    return np.stack(
        [np.interp(rounds, ends, np.concatenate([[0], row[known]])) for row in seconds]
    )
