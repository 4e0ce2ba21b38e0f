"""Random subsets told apart by their number of members and their mass.

A table [..., k, s] holds the probability that k members with masses summing to s were
chosen. Members are independent of each other in what comes here, or exchangeable, so a
table grows by one client at a time:

    T'[k, s] = (1 - q_k) T[k, s] + q_k T[k - 1, s - m].

What one client does depends on the table of all *others*; clients of equal mass have
the same, and halving the list of masses again and again gives all of them for log2 of
its length passes. Host work in float64: every number is positive, nothing cancels.
"""

from collections.abc import Callable, Iterator

import numpy as np

# (table, mass, how many members it knows of already) -> table
Grow = Callable[[np.ndarray, int, int], np.ndarray]
_MOST = 10**7  # cells of a table, of which some ten exist at a time


def uniform_tables(mass: np.ndarray, most: int) -> Iterator[tuple[int, np.ndarray]]:
    """For every mass, the table of uniform k-subsets of the others, k = 0..most.

    Row k is a distribution: of the k-subsets of N - 1 clients each is equally likely.
    """

    def grow(table: np.ndarray, m: int, known: int) -> np.ndarray:
        # Of k members drawn from known + 1 clients, the new one is with k / (known + 1)
        k = np.arange(table.shape[-2])[:, None]
        chance = k / (known + 1)
        return _added(table, m, 1 - np.minimum(chance, 1), np.minimum(chance, 1))

    # Row k of `known` < k clients is meaningless, and replaced before it is read.
    yield from _of_all_but_one(mass, _empty((most + 1, _width(mass, most))), grow)


def independent_tables(
    mass: np.ndarray, most: int, time: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """For every mass, tables [T, k, s] of the others that came before each time.

    Client i comes after an exponential time of rate m_i.
    """

    def grow(table: np.ndarray, m: int, known: int) -> np.ndarray:
        absent = np.exp(-m * time)[:, None, None]
        return _added(table, m, absent, -np.expm1(-m * time)[:, None, None])

    first = _empty((len(time), most + 1, _width(mass, most, len(time))))
    yield from _of_all_but_one(mass, first, grow)


def _of_all_but_one(
    mass: np.ndarray, table: np.ndarray, grow: Grow
) -> Iterator[tuple[int, np.ndarray]]:
    """(mass, the table of all clients but one of that mass) for every distinct mass."""
    values, counts = np.unique(mass, return_counts=True)

    def grown(table: np.ndarray, known: int, kinds: range, less: int = 0) -> tuple:
        for kind in kinds:
            for _ in range(counts[kind] - less):
                table, known = grow(table, int(values[kind]), known), known + 1
        return table, known

    def visit(kinds: range, table: np.ndarray, known: int) -> Iterator:
        if len(kinds) == 1:
            yield int(values[kinds[0]]), grown(table, known, kinds, less=1)[0]
            return
        half = len(kinds) // 2
        for mine, others in (
            (kinds[:half], kinds[half:]),
            (kinds[half:], kinds[:half]),
        ):
            yield from visit(mine, *grown(table, known, others))

    yield from visit(range(len(values)), table, 0)


def _width(mass: np.ndarray, most: int, times: int = 1) -> int:
    """Cells for the mass of up to `most` clients, in tables of so many times."""
    width = 1 + int(np.sort(mass)[::-1][:most].sum())
    if width * (most + 1) * times > _MOST:
        raise ValueError(
            "mass must be in a coarser unit for exact sums over cohorts: got up to "
            f"{width - 1} units in {most} clients"
        )
    return width


def _empty(shape: tuple[int, ...]) -> np.ndarray:
    """The table of nobody: no member, mass 0."""
    table = np.zeros(shape)
    table[..., 0, 0] = 1
    return table


def _added(
    table: np.ndarray, m: int, without: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    out = without * table
    if m < table.shape[-1]:
        part = chosen if chosen.shape[-2] == 1 else chosen[..., 1:, :]
        out[..., 1:, m:] += part * table[..., :-1, :-m]
    return out
