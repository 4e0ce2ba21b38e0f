"""The best of many configurations, at a part of what running them all would cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.engine.progress import Progress
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab import summaries
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.files import attempt
from fedjax_mos.lab.folders import as_json
from fedjax_mos.lab.searches.brackets import Bracket, brackets, cost
from fedjax_mos.lab.searches.costs import Unit, costs_of
from fedjax_mos.lab.searches.found import COLUMNS, RUNGS, Search, joined
from fedjax_mos.lab.searches.halving import Halving, Watch, best_first
from fedjax_mos.lab.sweeps.grid import Configuration, Range, configurations
from fedjax_mos.lab.sweeps.lanes import Lane, axes_of, lanes
from fedjax_mos.lab.sweeps.ledger import Ledger, assemble, plan_of, write_parquet
from fedjax_mos.lab.sweeps.members import member
from fedjax_mos.lab.sweeps.piece_runs import check_lanes

if TYPE_CHECKING:
    import pandas as pd


def search(
    experiment: Experiment,
    points: Sequence[Mapping[str, Any]] | None = None,
    *,
    seeds: int = 1,
    random: int | None = None,
    independent: bool = False,
    eta: int = 4,
    rungs: int | None = None,
    hyperband: bool = False,
    budget: float | None = None,
    unit: Unit = "rounds",
    metric: str | None = None,
    width: int | None = None,
    out: Path | str | None = None,
    progress: bool = True,
    **over: Iterable[Any] | Range,
) -> Search:
    """Find the best of the configurations that `sweep` with these words would run.

    All run to a first rung, the best 1/`eta` of them by `metric` (mean over seeds; by
    default the accuracy on validation or `held_out` examples) to the next, and so on:
    the last to the experiment's rounds. A configuration with a run that diverged leaves
    first. Those of different structure are ranked together. There are as few `rungs` as
    the `budget` allows, in rounds, gradients of single examples or bits over all runs
    (`unit`): by default a quarter of what a sweep would cost, or the least that there
    is. With `hyperband` brackets with fewer and fewer rungs share the configurations.

    Configurations that share a program are its lanes; what survives goes on in narrower
    ones, or with `width` in pieces of exactly so many lanes. A run that is still there
    in the end equals the experiment's own, and was evaluated at the rungs besides.

    With `out`, histories, states and rungs are kept in that folder, and the same call
    is resumed where it was interrupted. An interrupt (Ctrl-C) gives up the piece under
    way and returns what is finished.
    """
    check_experiment(experiment)
    tried = configurations(points, over, random, experiment.seed)
    all_lanes = lanes(experiment, tried, seeds, independent)
    check_lanes(all_lanes, may_stop=False)
    if any(lane.experiment.rounds != experiment.rounds for lane in all_lanes):
        raise ValueError("rounds is what a search divides: give one number of rounds")
    if width is not None and width < 1:
        raise ValueError(f"width must be at least 1: got {width}")
    goal = goal_of(experiment, metric)
    costs = costs_of(all_lanes, unit)
    plan = brackets(
        costs,
        experiment.rounds,
        eta,
        rungs=rungs,
        budget=budget,
        hyperband=hyperband,
        seed=experiment.seed,
        unit=unit,
    )

    asked = _Asked(experiment, tried, all_lanes, plan, goal, eta, width)
    if out is None:
        return _searched(asked, Ledger({}, None), progress)
    with alone(Path(out)):
        kept = plan_of(
            "search",
            experiment,
            [lane.experiment for lane in all_lanes],
            axes=axes_of(all_lanes),
            lanes=[lane.label for lane in all_lanes],
            configurations=[as_json(point) for point in tried],
            brackets=plan,
            metric=goal,
            eta=eta,
            width=width,
        )
        return _searched(asked, Ledger(kept, Path(out)), progress)


class _Asked(NamedTuple):
    """A search, checked."""

    experiment: Experiment
    tried: Sequence[Configuration]
    lanes: Sequence[Lane]
    plan: Sequence[Bracket]
    goal: str
    eta: int
    width: int | None


def goal_of(experiment: Experiment, metric: str | None) -> str:
    """The metric that configurations are ranked by, or a ValueError."""
    known = experiment.build().metrics()
    chosen = metric or summaries.choosing_metric(known)
    if chosen is None:
        raise ValueError(
            f"metric must be named, since {experiment.dataset_name} has no validation "
            "examples: set held_out to choose by what clients hold out, or metric to "
            f"one of {', '.join(known)}"
        )
    if chosen not in known:
        raise ValueError(f"metric must be one of {', '.join(known)}: got {chosen!r}")
    return chosen


def _searched(asked: _Asked, ledger: Ledger, progress: bool) -> Search:
    """All rungs of all brackets, as far as no interrupt comes."""
    import pandas as pd

    seeds = len(asked.lanes) // len(asked.tried)
    total = seeds * int(cost(asked.plan, [1.0] * len(asked.tried)))
    bar = Progress(total, progress)
    rows: list[dict[str, Any]] = []
    with bar, deferred_interrupt() as interrupted:
        go_on = Watch(bar.update, interrupted.is_set)
        halving = Halving(asked.lanes, asked.eta, asked.width, ledger, go_on)
        for found in _rungs(halving, asked.plan, asked.goal):
            complete = found is not None
            rows += found or []
            if ledger.out is not None and found:
                _keep_rungs(ledger.out, pd.DataFrame(rows))
    if not ledger.parts:
        raise KeyboardInterrupt
    result = Search(
        joined(assemble([lane.label for lane in asked.lanes], ledger.parts)),
        axes_of(asked.lanes),
        complete,
        asked.experiment,
        rungs=pd.DataFrame(rows, columns=COLUMNS),
        metric=asked.goal,
    )
    return result.won_by(lambda i: member(asked.experiment, asked.tried[i]))


def _keep_rungs(out: Path, rows: "pd.DataFrame") -> None:
    attempt(lambda: write_parquet(out / RUNGS, rows), out)


def _rungs(
    halving: Halving, plan: Sequence[Bracket], metric: str
) -> Iterator[list[dict[str, Any]] | None]:
    """A row per configuration, rung by rung; None and no more: interrupted."""
    for number, bracket in enumerate(plan):
        left, before = bracket.configurations, 0
        for k, rung in enumerate(bracket.rungs):
            ends = rung is bracket.rungs[-1]
            frame = halving.advance(left, before, rung.round, ends)
            if frame is None:
                yield None
                return
            values = halving.values(frame, metric, rung.round)
            keep = 0 if ends else bracket.rungs[k + 1].configurations
            order = best_first(values, metric)
            left, before = sorted(order[:keep]), rung.round
            where = {"bracket": number, "rung": k, "round": rung.round}
            yield [
                where | {"configuration": n, "value": v, "survived": n in left}
                for n, v in values.items()
            ]
            if not left:
                break
