"""A study of Optuna whose trials run in batches, as lanes of one program."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from fedjax_mos.folder_lock import alone
from fedjax_mos.lab.columns import falls
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.searches.brackets import most_rungs
from fedjax_mos.lab.searches.found import Search
from fedjax_mos.lab.searches.search import goal_of, search
from fedjax_mos.lab.sweeps.grid import Range
from fedjax_mos.lab.sweeps.lanes import fitting
from fedjax_mos.lab.sweeps.ledger import claim, plan_of

if TYPE_CHECKING:
    import optuna

_NAME, _FILE, _BATCHES = "fedjax_mos", "study.db", "batches"


def optuna_study(
    experiment: Experiment,
    study: "optuna.Study | Path | str",
    *,
    trials: int,
    batch: int = 16,
    seeds: int = 1,
    eta: int = 4,
    rungs: int = 2,
    metric: str | None = None,
    progress: bool = True,
    **over: Iterable[Any] | Range,
) -> "optuna.Study":
    """Run a study until it has so many finished `trials`, a `batch` at a time.

    `over` says what is tried, as in `search`: a `Range` is a float, a list a choice. A
    batch is asked for at once and runs as lanes, all of one width: one compilation per
    structure. At a rung the best 1/`eta` go on and the others are told as pruned; so
    are trials that diverge. A trial's value is the mean of `metric` over the seeds.

    `study` is Optuna's own, or a folder: the study lives there in study.db (sqlite),
    asks the tree-structured Parzen estimator with constant liars, and can be continued
    with Optuna alone. The same call resumes it, also to more trials; trials that were
    under way are run again from their last rung (in a study of your own they stay
    under way, since another process may be at them).
    """
    optuna = _optuna()
    check_experiment(experiment)
    for name, value in (("trials", trials), ("batch", batch), ("seeds", seeds)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1: got {value}")
    goal = goal_of(experiment, metric)
    space = {n: _distribution(n, values) for n, values in over.items()}
    if not space:
        raise ValueError("a study needs something to try: give lists or ranges by name")
    rungs = min(rungs, most_rungs(batch, experiment.rounds, eta))
    direction = "minimize" if falls(goal) else "maximize"
    last = -(-batch // eta ** (rungs - 1)) * seeds
    width = min(last + -last % jax.device_count(), fitting(experiment))
    with ExitStack() as stack:
        folder = None
        if isinstance(study, Path | str):
            folder = Path(study)
            stack.enter_context(alone(folder))
            words: dict[str, Any] = {
                "metric": goal,
                "batch": batch,
                "seeds": seeds,
                "eta": eta,
            }
            tried = {n: repr(d) for n, d in space.items()}
            plan = plan_of("study", experiment, **words, rungs=rungs, over=tried)
            claim(folder, plan, _BATCHES)
            study = optuna.create_study(
                storage=f"sqlite:///{folder.absolute() / _FILE}",
                study_name=_NAME,
                direction=direction,
                load_if_exists=True,
            )
        own: Any = study
        if own.direction.name.lower() != direction:
            raise ValueError(
                f"study must {direction} {goal}: got one with the direction "
                f"{own.direction.name.lower()}"
            )
        while asked := _asked(own, space, trials, batch, experiment.seed, folder):
            points = list({repr(t.params): t.params for t in asked}.values())
            found = search(
                experiment,
                points,
                seeds=seeds,
                eta=eta,
                rungs=min(rungs, most_rungs(len(points), experiment.rounds, eta)),
                metric=goal,
                width=width,
                out=folder and folder / _BATCHES / f"{asked[0].number:05}",
                progress=progress,
            )
            if not found.complete:
                break
            _tell(own, asked, points, found, experiment.rounds)
    return own


def _asked(
    study: "optuna.Study",
    space: Mapping[str, Any],
    trials: int,
    batch: int,
    seed: int,
    folder: Path | None,
) -> "list[optuna.Trial]":
    """The next trials to run: in our own folder first those that were under way."""
    optuna = _optuna()
    known = study.get_trials(deepcopy=False)
    done = sum(t.state.is_finished() for t in known)
    asked = []
    if folder is not None:
        under_way = [t for t in known if t.state == optuna.trial.TrialState.RUNNING]
        asked = [optuna.Trial(study, t._trial_id) for t in under_way]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # constant liars are called experimental
            # A sampler's randomness is not stored: the number of trials decides it.
            study.sampler = optuna.samplers.TPESampler(
                seed=seed + len(known), constant_liar=True
            )
    more = min(batch, trials - done) - len(asked)
    return asked + [study.ask(dict(space)) for _ in range(more)]


def _tell(
    study: "optuna.Study",
    asked: "Sequence[optuna.Trial]",
    points: Sequence[Mapping[str, Any]],
    found: Search,
    rounds: int,
) -> None:
    """Every trial's values at its rungs; those that did not come to the end: pruned."""
    pruned = _optuna().trial.TrialState.PRUNED
    for trial in asked:
        number = points.index(trial.params)
        mine = found.rungs[found.rungs["configuration"] == number]
        ends, values = mine["round"].tolist(), mine["value"].tolist()
        for end, value in zip(ends, values, strict=True):
            trial.report(value, end)
        if ends[-1] == rounds and not math.isnan(values[-1]):
            study.tell(trial, values[-1])
        else:
            study.tell(trial, state=pruned)


def _distribution(name: str, values: Iterable[Any] | Range) -> Any:
    optuna = _optuna()
    if isinstance(values, Range):
        return optuna.distributions.FloatDistribution(
            values.low, values.high, log=values.log
        )
    choices = [v.item() if hasattr(v, "item") else v for v in values]
    if not all(isinstance(v, bool | int | float | str | None) for v in choices):
        raise ValueError(
            f"{name} must be a Range, or a list of numbers and names that Optuna can "
            f"store: got {choices}"
        )
    return optuna.distributions.CategoricalDistribution(choices)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ValueError(
            "studies need Optuna: pip install '.[optuna]' in the clone"
        ) from None
    return optuna
