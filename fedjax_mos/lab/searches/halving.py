"""Lanes that go from rung to rung, the best 1/eta of them in narrower programs."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import jax

from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.columns import falls
from fedjax_mos.lab.searches.states import Pair, States
from fedjax_mos.lab.sweeps.lanes import Lane, Piece, fitting, groups_of, spread_out
from fedjax_mos.lab.sweeps.ledger import Ledger
from fedjax_mos.lab.sweeps.piece_runs import beginning, filled_up, own_rows

if TYPE_CHECKING:
    import pandas as pd

_CUMULATIVE = ["bits_up", "bits_down", "seconds"]


class Watch(NamedTuple):
    """Who looks on: told of rounds that are over, asked whether to stop."""

    done: Callable[[int], object]
    interrupted: Callable[[], bool]


class Halving:
    """Runs configurations from one rung to the next, and knows where they stand.

    Pieces are numbered as they come, which results alone decide: what the ledger has is
    not run again.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        eta: int,
        width: int | None,
        ledger: Ledger,
        watch: Watch,
    ) -> None:
        self.lanes, self.eta, self.width = lanes, eta, width
        self.ledger, self.states, self.watch = ledger, States(ledger.out), watch
        self.groups = groups_of(lanes)
        # Also what only `build` can check.
        self.most = [fitting(lanes[group[0]].experiment) for group in self.groups]
        self.pieces: list[Piece] = []
        self.before: dict[int, pd.Series] = {}  # lane -> what its rounds have cost
        self.built: tuple[tuple[int, int], Assembled] | None = None

    def advance(
        self, configurations: Sequence[int], first: int, last: int, ends: bool
    ) -> "pd.DataFrame | None":
        """Rounds `first` + 1 to `last` of all seeds of these; None: interrupted.

        `ends` says that nothing continues from there.
        """
        import pandas as pd

        wanted, parts = set(configurations), []
        old = {place[0] for place in self.states.places.values()} if first else set()
        for piece in self._cut(wanted):
            number = len(self.pieces)
            self.pieces.append(piece)
            if number not in self.ledger.parts:
                if self.watch.interrupted():
                    return None
                history = self._run(number, piece, first, last, ends)
                if history is None:
                    return None
                self.ledger.add(number, history, ends or number in self.states.safe)
            self.states.placed(number, piece.lanes)
            parts.append(self.ledger.parts[number])
            self.watch.done(len(piece.lanes) * (last - first))
        self.states.forget(sorted(old))
        frame = pd.concat(parts)
        self.before |= {
            int(str(lane)): rows.iloc[-1][_CUMULATIVE]
            for lane, rows in frame.groupby("lane")
        }
        return frame

    def values(self, frame: "pd.DataFrame", metric: str, last: int) -> dict[int, float]:
        """Configuration -> mean over its seeds after round `last`; NaN: diverged."""
        ends = frame[frame["round"] == last].set_index("lane")
        found: dict[int, list[float]] = {}
        for lane in sorted(set(frame["lane"])):
            there = lane in ends.index and not ends["diverged"][lane]
            value = float(ends[metric][lane]) if there else math.nan
            number = self.lanes[lane].label["configuration"]
            found.setdefault(number, []).append(value)
        return {n: sum(values) / len(values) for n, values in found.items()}

    def _cut(self, wanted: set[int]) -> list[Piece]:
        """The lanes of these configurations in pieces, group by group."""
        out = []
        for number, group in enumerate(self.groups):
            inside = [
                i for i in group if self.lanes[i].label["configuration"] in wanted
            ]
            if not inside:
                continue
            width = self.width or self._width(len(inside), number)
            out += [
                Piece(number, inside[start : start + width], width)
                for start in range(0, len(inside), width)
            ]
        return out

    def _width(self, count: int, group: int) -> int:
        """That of the first rung, or an eta-th of it, and so on, while `count` fits.

        So there are few widths, each a program, and fewer than eta copies for a lane.
        """
        width = spread_out(len(self.groups[group]), self.most[group])
        while True:
            narrower = -(-width // self.eta)
            narrower += -narrower % jax.device_count()
            if narrower < count or narrower >= width:
                return width
            width = narrower

    def _run(
        self, number: int, piece: Piece, first: int, last: int, ends: bool
    ) -> "pd.DataFrame | None":
        made = self._made(piece)
        if first == 0:
            state, key = beginning(made, self.lanes, piece)
        else:
            state, key = self.states.gather(filled_up(piece), self._like)
        every = self.lanes[piece.lanes[0]].experiment.eval_every
        state, history = made.run(state, key, last - first, every=every, progress=False)
        found = own_rows(history, piece)
        if found is None:
            return None
        if not ends:
            self.states.keep(number, last, (state, key))
        if first:
            for name in _CUMULATIVE:
                spent = {lane: self.before[lane][name] for lane in piece.lanes}
                found[name] += found["lane"].map(spent).astype(found[name].dtype)
        return found

    def _made(self, piece: Piece) -> Assembled:
        which = (piece.group, piece.width)
        if self.built is None or self.built[0] != which:
            one = self.lanes[piece.lanes[0]].experiment
            self.built = which, one.build(lanes=piece.width)
        return self.built[1]

    def _like(self, number: int) -> Pair:
        piece = self.pieces[number]
        return beginning(self._made(piece), self.lanes, piece)


def best_first(values: dict[int, float], metric: str) -> list[int]:
    """Configurations by value; those that diverged are not among them.

    >>> best_first({0: 0.1, 1: 0.9, 2: float("nan"), 3: 0.1}, "valid_accuracy")
    [1, 0, 3]
    """
    sign = 1 if falls(metric) else -1
    left = [n for n, value in values.items() if not math.isnan(value)]
    return sorted(left, key=lambda n: sign * values[n])
