"""Descent that never ends higher than it began: Adam's direction in a trust region.

Around the best point so far every number moves by at most `radius`. Where the value
does not fall the point is not accepted, and the region shrinks around the old one.
Losses of whole runs are rough, so that the slope of one point says little about its
surroundings: the direction is that of Adam's moments of all slopes seen, those of
rejected points included, with m and v of slopes g of norm at most one,

    m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) mean g^2,
    step = -radius d / max|d|,   d = (m / (1 - b1^k)) / sqrt(v / (1 - b2^k)).

The mean is over the coordinates of one name: those of a schedule have one unit, so that
rounds which matter little hardly move, instead of following their noise.
"""

import numpy as np

LEAST = 0.01  # a region of less than a hundredth on the log scale is not worth a run
_MOST = 1.0
_GROW, _SHRINK = 1.5, 0.5
_B1, _B2 = 0.7, 0.9
_EPS = 1e-8


class TrustRegion:
    """Proposes points one by one, and is told their values and slopes.

    >>> region = TrustRegion(np.array([-9.0]), np.array([9.0]), radius=0.5)
    >>> point = np.array([4.0])
    >>> while point is not None:
    ...     _ = region.tell(point, float(point @ point), 2 * point)
    ...     point = region.propose()
    >>> abs(float(region.point[0])) < 0.1
    True
    """

    def __init__(
        self,
        low: np.ndarray,
        high: np.ndarray,
        radius: float,
        names: np.ndarray | None = None,  # number of every coordinate's name
    ) -> None:
        self.low, self.high, self.radius = low, high, radius
        self.names = np.arange(len(low)) if names is None else names
        self.point, self.value = np.zeros_like(low), np.inf
        self.mean = self.square = np.zeros_like(low)
        self.seen = 0

    def tell(self, point: np.ndarray, value: float, slope: np.ndarray | None) -> bool:
        """Learn from a point; whether it is the new best. No slope: not to be used."""
        if slope is None or not np.isfinite([value, *slope]).all():
            self.radius *= _SHRINK
            return False
        g = slope / max(1.0, float(np.linalg.norm(slope)))
        self.mean = _B1 * self.mean + (1 - _B1) * g
        sums, counts = np.bincount(self.names, g**2), np.bincount(self.names)
        self.square = _B2 * self.square + (1 - _B2) * (sums / counts)[self.names]
        self.seen += 1
        if value >= self.value:
            self.radius *= _SHRINK
            return False
        if self.seen > 1:
            self.radius = max(self.radius, min(_GROW * self.radius, _MOST))
        self.point, self.value = point, value
        return True

    def propose(self) -> np.ndarray | None:
        """The next point to try; None where there is nothing left to gain."""
        if self.radius < LEAST or not self.seen or not np.isfinite(self.value):
            return None
        mean = self.mean / (1 - _B1**self.seen)
        step = -mean / (np.sqrt(self.square / (1 - _B2**self.seen)) + _EPS)
        size = np.abs(step).max()
        if size == 0:
            return None
        point = self.point + step * (self.radius / size)
        point = np.clip(point, self.low, self.high)
        return None if np.array_equal(point, self.point) else point
