"""The states of lanes between two rungs, in memory or in a folder."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.types import Key, PyTree, RoundState

Pair = tuple[RoundState, Key]  # leaves [width, ...]


class States:
    """Piece -> the state and key of its lanes after its rounds."""

    def __init__(self, out: Path | None) -> None:
        self.out = None if out is None else out / "states"
        self.held: dict[int, Pair] = {}
        self.safe: set[int] = set()  # pieces whose states were written, or need not be
        self.places: dict[int, tuple[int, int]] = {}  # lane -> piece and row there

    def placed(self, piece: int, lanes: Sequence[int]) -> None:
        """Note that a piece has the latest state of these lanes."""
        self.places |= {lane: (piece, row) for row, lane in enumerate(lanes)}

    def keep(self, piece: int, round: int, pair: Pair) -> None:
        """A piece's lanes after this round."""
        self.held[piece] = jax.tree.map(_on_host, pair)
        if self.out is None or self._file(piece).save(round, pair, {}, []):
            self.safe.add(piece)

    def gather(self, lanes: Sequence[int], like: Callable[[int], Pair]) -> Pair:
        """The states of these lanes side by side; `like` has the shapes of a piece."""
        places = [self.places[lane] for lane in lanes]
        pieces = list(dict.fromkeys(piece for piece, _ in places))
        pairs = [self._found(piece, like) for piece in pieces]
        rows = [(pieces.index(piece), row) for piece, row in places]
        return jax.tree.map(lambda *leaves: _rows(leaves, rows), *pairs)

    def forget(self, pieces: Sequence[int]) -> None:
        """Of rungs that nothing continues from."""
        for piece in pieces:
            self.held.pop(piece, None)
            if self.out is not None:
                shutil.rmtree(self._file(piece).folder, ignore_errors=True)

    def _found(self, piece: int, like: Callable[[int], Pair]) -> Pair:
        if piece not in self.held:
            found = self.out and self._file(piece).latest(like(piece))
            if not found:
                raise ValueError(
                    f"out has lost the states of piece {piece}, which its survivors "
                    "continue from: begin anew in another folder"
                )
            self.held[piece] = found[0]
        return self.held[piece]

    def _file(self, piece: int) -> Checkpoints:
        assert self.out is not None
        return Checkpoints(self.out / f"{piece:05}", {"piece": piece})


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _on_host(leaf: Any) -> Any:
    return leaf if _is_key(leaf) else np.asarray(leaf)


def _rows(leaves: Sequence[PyTree], rows: Sequence[tuple[int, int]]) -> PyTree:
    """Row `r` of leaf `i` for every (i, r), stacked."""
    if not _is_key(leaves[0]):
        return np.stack([leaves[i][r] for i, r in rows])
    data = [np.asarray(jax.random.key_data(leaf)) for leaf in leaves]
    found = jnp.asarray(np.stack([data[i][r] for i, r in rows]))
    return jax.random.wrap_key_data(found, impl=jax.random.key_impl(leaves[0]))
