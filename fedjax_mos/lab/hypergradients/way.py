"""The points that a tuning tries one after another, and what it finds there."""

import sys
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.engine.progress import Progress
from fedjax_mos.lab.hypergradients.coordinates import Coordinates
from fedjax_mos.lab.hypergradients.hypergrad import runs
from fedjax_mos.lab.hypergradients.scales import flat
from fedjax_mos.lab.hypergradients.stability import Hypergradient
from fedjax_mos.lab.hypergradients.trust_region import TrustRegion
from fedjax_mos.lab.hypergradients.updates import Update, Updates
from fedjax_mos.lab.hypergradients.wrt import Named

if TYPE_CHECKING:
    import pandas as pd

Point = np.ndarray | None  # a row of `Coordinates`; None: the start as it was given
Gradient = Callable[[Named], Hypergradient]
_SAME = 1e-4  # relative, of a number that went to its scale and back


class Way:
    """Points of a tuning: each is computed, or known from a folder.

    `gradient_over(horizon)` makes a function; a round of all seeds counts `rounds`.
    """

    def __init__(
        self,
        start: Named,
        coordinates: Coordinates,
        gradient_over: Callable[[int | None], Gradient],
        horizon: int | None,
        rounds: int,
        log: Updates,
        told: bool,
    ) -> None:
        self.start, self.coordinates, self.log = start, coordinates, log
        self.gradient_over, self.horizon, self.rounds = gradient_over, horizon, rounds
        self.told, self.searched = told, 0
        self.still: list[str] = []
        self.others: list[np.ndarray] = []  # what the halving has left, best first
        self.points: list[Point] = []
        self.updates: list[Update] = []
        self.at: Gradient | None = None
        self.begin = time.perf_counter() - sum(u.seconds for u in log.known[-1:])

    def go(
        self,
        updates: int,
        step_size: float,
        best_first: Callable[[], list[Named]],
        goal: str,
        progress: bool,
    ) -> int:
        """Up to so many updates; fewer, if nothing is left to gain. How many then."""
        bar = Progress(updates, progress, unit="update")
        with bar, deferred_interrupt() as interrupted:
            asking = self._asked(step_size, best_first)
            point = next(asking)
            while True:
                found = self._visit(point)
                bar.update(1, {goal: f"{found.value:.4g}"})
                if len(self.updates) == updates or interrupted.is_set():
                    return updates
                try:
                    point = asking.send(found)
                except StopIteration:
                    return len(self.updates)
                if interrupted.is_set():  # during the halving
                    return updates

    def best(self) -> Named:
        """The numbers of the lowest point that is stable."""
        values = [np.inf if u.unstable else u.value for u in self.updates]
        return jax.device_get(self._named(self.points[int(np.argmin(values))]))

    def frame(self, goal: str) -> "pd.DataFrame":
        """One row per update; `accepted` are those that were the best so far.

        `from` says where a point comes from: the start, the halving or the gradient.
        """
        import pandas as pd

        rows, lowest, spent = [], np.inf, 0
        for number, found in enumerate(self.updates):
            spent += found.cost + (self.searched if number == 1 else 0)
            accepted = not found.unstable and found.value < lowest
            lowest = found.value if accepted else lowest
            about = {n: getattr(found, n) for n in ("norm", "growth", "unstable")}
            rows.append(
                {"update": number, "from": self._origin(number), goal: found.value}
                | found.means
                | about
                | {"accepted": accepted, "seconds": found.seconds, "cost": spent}
            )
        return pd.DataFrame(rows)

    def _asked(
        self, step_size: float, best_first: Callable[[], list[Named]]
    ) -> Generator[Point, Update, None]:
        """The points to try, each after what the last one gave."""
        found = yield from self._steadied(None)
        row = self.coordinates.row
        if found.unstable:  # over any horizon: a candidate may do better
            self.others = [row(named) for named in best_first()]
            for point in self.others:
                yield from self._descended(point, (yield point), step_size)
            if all(update.unstable for update in self.updates):
                raise ValueError(
                    f"the start or a candidate must be stable: {found.unstable}"
                )
            return
        self._leave_alone(found.still)
        others = self.others = [row(named) for named in best_first()]
        tried = {}  # where a descent may begin
        first = row(self.start)
        tried[0] = first, (found if self._is_start(first) else (yield first))
        if others:
            best = yield others[0]
            if best.unstable and best.value < found.value:
                best = yield from self._steadied(others[0])
            tried[1] = others[0], best
        usable = [pair for pair in tried.values() if not pair[1].unstable]
        for pair in sorted(usable, key=lambda pair: pair[1].value)[:1]:
            yield from self._descended(*pair, step_size)
        for point in others[1:]:  # there are updates left
            yield from self._descended(point, (yield point), step_size)

    def _steadied(self, point: Point) -> Generator[Point, Update, Update]:
        """A point over as long a horizon as is stable there."""
        found = yield point
        while found.unstable and found.horizon >= 1:
            self.horizon, self.at = found.horizon, None
            found = yield point
        return found

    def _descended(
        self, point: np.ndarray, found: Update, step_size: float
    ) -> Generator[Point, Update, None]:
        """A descent from this point, until nothing is left to gain."""
        box = self.coordinates
        region = TrustRegion(box.low, box.high, step_size, box.names)
        while True:
            usable = None if found.unstable else np.array(found.slope)
            region.tell(point, found.value, usable)
            following = region.propose()
            if following is None:
                return
            point, found = following, (yield following)

    def _visit(self, point: Point) -> Update:
        number = len(self.updates)
        if number < len(self.log.known):
            found = self.log.known[number]
        else:
            found = self._computed(point)
            self.log.add(number, found)
        self.points.append(point)
        self.updates.append(found)
        return found

    def _computed(self, point: Point) -> Update:
        self.at = self.at or self.gradient_over(self.horizon)
        named = self._named(point)
        found = self.at(named)
        still = [n for n, slope in found.gradient.items() if not flat(slope).any()]
        alone = {n: jax.tree.map(jnp.zeros_like, named[n]) for n in self.still}
        row = self.coordinates.row(self.start) if point is None else point
        _, pull = jax.vjp(self.coordinates.back, jnp.asarray(row, float))
        (slope,) = pull(jax.tree.map(jnp.asarray, found.gradient | alone))
        return Update(
            found.value,
            np.asarray(slope, float).tolist(),
            {name: float(np.mean(flat(value))) for name, value in named.items()},
            still,
            found.norm,
            float(np.max(found.growth)),
            found.unstable,
            found.horizon,
            # A window is computed once more than the rounds in it.
            self.rounds * (runs(found.mode, named) + (self.horizon is not None)),
            time.perf_counter() - self.begin,
        )

    def _named(self, point: Point) -> Named:
        if point is None:
            return self.start
        moved = self.coordinates.back(jnp.asarray(point, float))
        return moved | {n: self.start[n] for n in self.still}

    def _origin(self, number: int) -> str:
        point = self.points[number]
        if any(point is other for other in self.others):
            return "halving"
        start = point is None or self._is_start(point)
        return "start" if start else "gradient"

    def _is_start(self, row: np.ndarray) -> bool:
        pairs = jax.tree.map(
            lambda a, b: np.allclose(a, b, rtol=_SAME, atol=0.0),
            self._named(row),
            self.start,
        )
        return all(jax.tree.leaves(pairs))

    def _leave_alone(self, still: list[str]) -> None:
        """Numbers that the objective does not depend on smoothly; none, if named."""
        if still and (self.told or len(still) == len(self.start)):
            raise ValueError(
                f"the objective does not depend smoothly on {still[0]}: its gradient "
                "is zero at the start; sweep it"
            )
        if still:
            names = ", ".join(still)
            print(f"without a gradient, so left alone: {names}", file=sys.stderr)
        self.still = still
