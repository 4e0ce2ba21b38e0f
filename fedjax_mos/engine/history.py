"""What a run leaves behind: one row per round, collected block by block."""

import time
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedjax_mos.engine.block import Block
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

    def charge(self, bits_up: list[int], bits_down: list[int]) -> None:
        """Bits [lanes] that count in the next round."""
        self.owed = {"bits_up": np.array(bits_up), "bits_down": np.array(bits_down)}

    def evaluated(self, values: PyTree) -> None:
        """Put `values` into the last round."""
        part = self.parts[-1]
        for name, value in jax.device_get(values).items():
            part[name] = np.full(part["bits_up"].shape, np.nan)
            part[name][:, -1] = value

    def add(self, out: Block, length: int, evaluated: np.ndarray) -> None:
        """Record a block of `length` rounds, some of which were `evaluated`."""
        block = jax.device_get(out)  # the one transfer of the block
        if not self.lanes:
            block = jax.tree.map(lambda leaf: leaf[None], block)
        block = jax.tree.map(lambda leaf: leaf[:, :length], block)
        lanes, flags = len(block.bits_up), evaluated[:length]
        columns = {f"local_{name}": v for name, v in block.metrics.items()}
        for name, value in block.evaluated.items():
            columns[name] = np.where(flags, value, np.nan)
        columns |= {n: _cells(v) for n, v in (block.reported or {}).items()}
        columns["bits_up"] = block.bits_up.sum(-1, dtype=np.int64)
        columns["bits_down"] = block.bits_down.sum(-1, dtype=np.int64)
        for name, bits in self.owed.items():
            columns[name][:, 0] += bits
        self.charge([0], [0])
        seconds = time.perf_counter() - self.start
        columns["seconds"] = np.full((lanes, length), np.nan)
        columns["seconds"][:, -1] = seconds
        self.parts.append(columns)
        self.rounds += length
        values = block.evaluated
        shown = [name for name in _SHOWN if name in values] or list(values)[:2]
        if flags.any():
            for name in shown:
                self.last[name] = f"{float(values[name][:, flags][:, -1].mean()):.4g}"
        self.bits += int(columns["bits_up"].sum() + columns["bits_down"].sum())
        self.last["Mbit"] = f"{self.bits / lanes / 1e6:.4g}"

    def frame(self) -> "pd.DataFrame":
        import pandas as pd

        # A block without an evaluation lacks its columns.
        columns = {
            name: np.concatenate(
                [
                    part.get(name, np.full(part["bits_up"].shape, np.nan))
                    for part in self.parts
                ],
                axis=1,
            )
            for name in max(self.parts, key=len)
        }
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


def _cells(values: np.ndarray) -> np.ndarray:
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
