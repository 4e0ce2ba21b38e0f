"""Every method tuned at the same cost: as many draws, seeds and rounds for each.

A method's numbers are drawn within a factor of twenty of those that it was published
with (of their odds p / (1 - p), for numbers on the unit interval), evenly on a log or
logit scale; a client's step size around the data set's. Numbers at the end of their
range, such as a momentum of 0, belong to the variant and stay. The published numbers
themselves, with the data set's step size, are the first point.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from fedjax_mos.lab import catalog, options
from fedjax_mos.lab.compare import Comparison, compare
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.files import attempt, whole
from fedjax_mos.lab.hypergradients.scales import drawn, scales_of
from fedjax_mos.lab.hypergradients.wrt import default_wrt
from fedjax_mos.lab.searches.found import Search
from fedjax_mos.lab.searches.search import search
from fedjax_mos.lab.sweeps.grid import check_most

DRAWS = 64
FACTOR = 20.0
FRESH = 1000  # seeds of the comparison begin so far behind those of the searches
Point = dict[str, float]


def search_all(
    experiment: Experiment,
    algorithms: Iterable[str] | None = None,
    *,
    random: int = DRAWS,
    seeds: int = 3,
    fresh: int = 20,
    out: Path | str | None = None,
    progress: bool = True,
) -> Comparison:
    """Tune every method of the catalog in the setting of `experiment`; compare winners.

    Each gets a halving among `random` points with `seeds` seeds, at a quarter of the
    cost of running all to the end. The winners, chosen as in `search`, then run
    with `fresh` other seeds. Rounds are equal, gradients are not; numbers of channels
    stay as they are. A method of which every point diverged is left out. With `out`
    there is a folder for each method's search, one for the comparison and tuned.toml;
    the same call resumes.
    """
    if random < 1:
        raise ValueError(f"random must be at least 1: got {random}")
    check_most(random, seeds, "draws")
    names = [*catalog.ALGORITHMS] if algorithms is None else [*algorithms]
    for name in names:
        catalog.check_name("algorithm", catalog.ALGORITHMS, name)
    members = {name: dataclasses.replace(experiment, algorithm=name) for name in names}
    points = {name: points_of(one, random) for name, one in members.items()}
    folder = None if out is None else Path(out)
    winners: dict[str, Experiment] = {}
    for name, one in members.items():
        found: Search = search(
            dataclasses.replace(one, eval_every=one.rounds),
            points[name],
            seeds=seeds,
            out=folder and folder / "searches" / name,
            progress=progress,
        )
        if not found.complete:
            raise KeyboardInterrupt
        if found.winner is not None:
            winners[name] = dataclasses.replace(
                found.winner, seed=one.seed + FRESH, eval_every=one.eval_every
            )
    if folder is not None:
        text = tuned_toml(experiment.dataset_name, winners)
        attempt(lambda: _keep(folder / "tuned.toml", text), folder)
    there = folder and folder / "winners"
    return compare(winners, fresh, out=there, progress=progress)


def _keep(path: Path, text: str) -> None:
    with whole(path) as partial:
        partial.write_text(text)


def points_of(experiment: Experiment, count: int) -> list[Point]:
    """The published numbers with the data set's step size, and draws around them."""
    entry = catalog.ALGORITHMS[str(experiment.algorithm)]
    published, made = entry.spec().hp, experiment.parts["algorithm"].spec
    start: Point = {}
    bounds: dict[str, tuple[float, float]] = {}
    for name in default_wrt(experiment):
        short = name.removeprefix("algorithm.")
        value = float(published[short])
        if short == "lr" and entry.local_lr:
            value = experiment.dataset_defaults.lr
        start[name] = value
        unit = options.option_at(made, (short,)).interval
        ends = _around(value, unit is not None and unit.high == 1)
        bounds |= {} if ends is None else {name: ends}
    scales = scales_of(experiment, {n: start[n] for n in bounds}, bounds)
    points: list[Point] = [{}, *drawn(scales, count - 1, experiment.seed)]
    return [
        {n: float(f"{v:.6g}") for n, v in (start | point).items()} for point in points
    ]


def tuned_toml(dataset: str, winners: Mapping[str, Experiment]) -> str:
    """The winners' numbers, as the catalog reads them."""
    lines = []
    for name, one in winners.items():
        lines += ["", f"[{dataset}.{name}]"]
        lines += [
            f"{option.removeprefix('algorithm.')} = {one.options[option]}"
            for option in default_wrt(one)
        ]
    return "\n".join(lines[1:]) + "\n"


def _around(value: float, unit: bool) -> tuple[float, float] | None:
    """The range that a number is drawn from; None at the end of its own range.

    >>> _around(0.2, unit=False), _around(0.5, unit=True), _around(0.0, unit=True)
    ((0.01, 4.0), (0.047619047619047616, 0.9523809523809523), None)
    """
    if value <= 0 or unit and value >= 1:
        return None
    if not unit:
        return value / FACTOR, value * FACTOR
    odds = value / (1 - value)
    low, high = odds / FACTOR, odds * FACTOR
    return low / (1 + low), high / (1 + high)
