"""Schedules by fewer numbers than rounds: a value per segment, or knots of a spline.

A shape is a matrix A [rounds, numbers]: on the scale on which a number moves (log or
logit) the schedule's values are A c. Rows add up to one, so that equal numbers make a
constant.
"""

import numpy as np


def shape_of(name: str, text: str, rounds: int) -> np.ndarray:
    """The matrix of `rounds` (a value each), `segments:NUMBER` or `spline:NUMBER`.

    >>> shape_of("lr", "segments:2", 5).T.tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 1.0]]
    """
    kind, _, number = text.partition(":")
    if text == "rounds":
        return np.eye(rounds)
    if kind not in ("segments", "spline") or not number.isdigit():
        raise ValueError(
            f"the schedule of {name} must be rounds, segments:NUMBER or spline:NUMBER: "
            f"got {text!r}"
        )
    count, least = int(number), 1 if kind == "segments" else 2
    if not least <= count <= rounds:
        raise ValueError(
            f"the schedule of {name} must have {least} to {rounds} {kind}, as there "
            f"are {rounds} rounds: got {count}"
        )
    return _segments(rounds, count) if kind == "segments" else _spline(rounds, count)


def _segments(rounds: int, count: int) -> np.ndarray:
    """Value k holds in rounds ceil(k T / K) to ceil((k + 1) T / K) - 1."""
    return np.eye(count)[np.arange(rounds) * count // rounds]


def _spline(rounds: int, count: int) -> np.ndarray:
    """The natural cubic spline through values at knots from first to last round."""
    from scipy.interpolate import CubicSpline

    knots = np.linspace(0, rounds - 1, count)
    return CubicSpline(knots, np.eye(count), bc_type="natural")(np.arange(rounds))
