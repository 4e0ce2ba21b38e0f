"""What a tuning begins from: its numbers, and the winner of a halving among others."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_mos.lab import options
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.hypergradients.scales import Scales, drawn
from fedjax_mos.lab.hypergradients.wrt import Named, Wrt, names_in, with_named
from fedjax_mos.lab.searches.found import Search
from fedjax_mos.lab.searches.search import search
from fedjax_mos.schedule import Schedule, is_schedule


def winner_of(start: Experiment | Search) -> Experiment:
    """An experiment as it is, or that of a search."""
    if not isinstance(start, Search):
        check_experiment(start)
        return start
    if start.winner is None:
        raise ValueError("the search has no winner to tune: every run diverged")
    return start.winner


def numbers_of(
    experiment: Experiment, wrt: Wrt | None, shapes: Mapping[str, np.ndarray]
) -> tuple[Assembled, Named]:
    """`with_named`, where a name that has a shape is a schedule.

    Without `wrt` the names are those with a shape, if there are any.
    """
    wanted = (names_in(wrt) if wrt is not None else tuple(shapes)) or None
    if not shapes:
        return with_named(experiment, wanted)
    names = tuple(dict.fromkeys([*(wanted or ()), *shapes]))
    given = dict(wrt) if isinstance(wrt, Mapping) else {}
    known = with_named(experiment, names)[1] | given
    rounds = experiment.rounds
    for name in shapes:
        value = known[name]
        values = value.values[:rounds] if is_schedule(value) else np.full(rounds, value)
        known[name] = Schedule(np.asarray(values))
    return with_named(experiment, known)


def halved(
    experiment: Experiment,
    scales: Scales,
    start: Named,
    shaped: Mapping[str, np.ndarray],
    *,
    candidates: int,
    seeds: int,
    objective: str,
    out: Path | None,
    progress: bool,
) -> tuple[list[Named], int]:
    """The best of a halving, the winner first; rounds that it took.

    Those that came to the end count, without the start itself. Drawn are the single
    numbers, evenly on their scales; a schedule that is tuned by a shape is drawn as a
    straight line there between two draws, which falls. Everything else is the start's.
    """
    single = [n for n in scales if n in shaped or np.shape(_leaf(start[n])) == ()]
    if not candidates or not single:
        return [], 0
    points = _lines({n: scales[n] for n in single}, shaped, experiment, candidates)
    base = with_numbers(experiment, {n: v for n, v in start.items() if n not in shaped})
    found = search(
        dataclasses.replace(base, eval_every=base.rounds),
        [{n: start[n] for n in shaped}, *points],
        seeds=seeds,
        metric=objective,
        out=out,
        progress=progress,
    )
    spent = int(found.spent()["rounds"])
    cells = found.cells().dropna(subset="mean").query(f"ran == {base.rounds}")
    return [start | points[i - 1] for i in cells.index if i > 0], spent


def _lines(
    scales: Scales, shaped: Mapping[str, np.ndarray], experiment: Experiment, count: int
) -> list[Named]:
    """Random points, in which what has a shape falls from one draw to another."""
    seed, time = experiment.seed, np.linspace(0, 1, experiment.rounds)
    points: list[Named] = [dict(point) for point in drawn(scales, count, seed)]
    ends = drawn({n: scales[n] for n in shaped}, count, seed + count)
    for point, end in zip(points, ends, strict=True):
        for name, scale in ((n, scales[n]) for n in shaped):
            low, high = sorted(float(scale.free(v)) for v in (point[name], end[name]))
            point[name] = Schedule(np.asarray(scale.back(high + (low - high) * time)))
    return points


def with_numbers(experiment: Experiment, named: Named) -> Experiment:
    """The experiment with these numbers."""
    plain = {n: jax.tree.map(_plain, value) for n, value in named.items()}
    changed = options.replaced(experiment.options, plain, experiment.parts)
    return dataclasses.replace(experiment, options=changed)


def _plain(leaf: Any) -> Any:
    """A number as Python's own, an array as it is."""
    return np.asarray(leaf).item() if np.ndim(leaf) == 0 else leaf


def _leaf(value: Any) -> Any:
    return value.values if is_schedule(value) else value
