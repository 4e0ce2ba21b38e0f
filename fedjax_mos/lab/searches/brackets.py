"""Which configurations a search runs for how many rounds, before any result is known.

Successive halving: all n run to the first rung, the best 1/eta of them to the second,
and so on to the last round, R. Of m rungs, rung k = 0, ..., m - 1 lies at round
R eta^(k + 1 - m) and is reached by n eta^(-k) configurations, both rounded up.
Hyperband divides the configurations among brackets of m, m - 1, ..., 1 rungs, such that
all cost about the same: a late first rung forgives a slow start.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHARE = 1 / 4  # of the cost of running every configuration to the end


class Rung(NamedTuple):
    """Where so many configurations are ranked."""

    round: int  # rounds that are over then
    configurations: int  # that run until there


class Bracket(NamedTuple):
    """Configurations among which the best are sought, and the rungs."""

    configurations: list[int]
    rungs: list[Rung]


def brackets(
    costs: Sequence[float],
    rounds: int,
    eta: int,
    *,
    rungs: int | None = None,
    budget: float | None = None,
    hyperband: bool = False,
    seed: int = 0,
    unit: str = "rounds",
) -> list[Bracket]:
    """The plan with the fewest rungs whose cost stays within the budget.

    `costs` are those of a round of every configuration. Fewer rungs are more careful
    and dearer. Without a budget it is a quarter of what all would cost to the end, or
    the least that there is.
    """
    count = len(costs)
    if eta < 2:
        raise ValueError(f"eta must be at least 2: got {eta}")
    most = most_rungs(count, rounds, eta)
    if rungs is not None and not 1 <= rungs <= most:
        raise ValueError(
            f"rungs must be between 1 and {most}, for {count} configurations and "
            f"{rounds} rounds with eta {eta}: got {rungs}"
        )
    tried = range(1, most + 1) if rungs is None else [rungs]
    plans = [_plan(count, rounds, eta, m, hyperband, seed) for m in tried]
    wanted = SHARE * rounds * sum(costs) if budget is None else budget
    for plan in plans:
        if cost(plan, costs) <= wanted:
            return plan
    if budget is not None:
        least = min(cost(plan, costs) for plan in plans)
        raise ValueError(
            f"budget must be at least {least:g} {unit} for {count} configurations"
            f"{'' if rungs is None else f' and {rungs} rungs'}: got {budget:g}"
        )
    return plans[-1]


def cost(plan: Sequence[Bracket], costs: Sequence[float]) -> float:
    """The most that a plan can cost: if the dearest configurations survive."""
    total = 0.0
    for bracket in plan:
        dearest = sorted((costs[i] for i in bracket.configurations), reverse=True)
        before = 0
        for rung in bracket.rungs:
            total += sum(dearest[: rung.configurations]) * (rung.round - before)
            before = rung.round
    return total


def _plan(
    count: int, rounds: int, eta: int, rungs: int, hyperband: bool, seed: int
) -> list[Bracket]:
    if not hyperband:
        return [_bracket(list(range(count)), rounds, eta, rungs)]
    # A bracket of m rungs costs about m / eta^(m - 1) full runs per configuration.
    shares = np.array([eta ** (m - 1) / m for m in range(rungs, 0, -1)])
    borders = np.round(np.cumsum(shares) / shares.sum() * count).astype(int)
    order = np.random.default_rng(seed).permutation(count)
    parts = [sorted(part.tolist()) for part in np.split(order, borders[:-1])]
    return [
        _bracket(part, rounds, eta, min(m, most_rungs(len(part), rounds, eta)))
        for m, part in zip(range(rungs, 0, -1), parts, strict=True)
        if part
    ]


def _bracket(configurations: list[int], rounds: int, eta: int, rungs: int) -> Bracket:
    """
    >>> _bracket(list(range(10)), 100, 3, 3).rungs == [(12, 10), (34, 4), (100, 2)]
    True
    """
    count = len(configurations)
    return Bracket(
        configurations,
        [
            Rung(-(-rounds // eta ** (rungs - 1 - k)), -(-count // eta**k))
            for k in range(rungs)
        ],
    )


def most_rungs(count: int, rounds: int, eta: int) -> int:
    """So many that one is left in the end, and the first rung is after a round."""
    halvings = math.ceil(round(math.log(count, eta), 9)) if count > 1 else 0
    return 1 + min(halvings, int(math.log(rounds, eta) + 1e-9))
