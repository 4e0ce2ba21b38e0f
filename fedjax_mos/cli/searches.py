"""The command that finds the best of many configurations, or of every method."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fedjax_mos.cli.arguments import (
    All,
    Flat,
    Over,
    Points,
    Quiet,
    Settings,
    all_cores,
    check_target,
    end,
    end_study,
    starting,
    written,
)
from fedjax_mos.cli.studies import studied, tried_by
from fedjax_mos.cli.words import resumable
from fedjax_mos.lab.setting import Method

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


def search_options(
    method: Annotated[Method, *Flat],
    over: Over = (),
    points: Points = (),
    random: int | None = None,
    seeds: int = 3,
    independent: bool = False,
    eta: int = 4,
    rungs: int | None = None,
    hyperband: bool = False,
    budget: float | None = None,
    unit: Literal["rounds", "gradients", "bits"] = "rounds",
    width: int | None = None,
    settings: Settings = (),
    metric: str | None = None,
    target: float | None = None,
    every_method: All = False,
    out: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """Find the best of many configurations: between rungs only the best go on.

    Examples:
        fedjax-mos search --random 64 --over lr=log:0.01:1
        fedjax-mos search --over algorithm=fedavg,fedmos --over lr=0.1,0.3 --seeds 5
        fedjax-mos search --all --sampler ucs --out runs/all

    Args:
        method: What to run.
        over: Any option or field, lists and ranges, as in sweep.
        points: One configuration, as in sweep.
        random: Number of draws from the ranges.
        seeds: Number of seeds of every configuration; they stay together.
        independent: Other seeds for every configuration.
        eta: One in so many survives a rung.
        rungs: Number of rungs; by default as few as the budget allows.
        hyperband: Brackets with fewer and fewer rungs share the configurations.
        budget: The most to spend on all runs; by default a quarter of a sweep.
        unit: What the budget counts.
        width: Runs at a time, the same at all rungs; by default fewer at later ones.
        settings: What all have in common: --set prox=0.01.
        metric: What the best is chosen by; by default the accuracy on validation or
            held-out examples.
        target: Test accuracy of "rounds to target"; by default the data set's.
        every_method: Tune every algorithm at the same cost, then compare: --random
            draws of each, by default 64, around its published numbers.
        out: Folder for the results; one of the same search is resumed.
        quiet: Print results and errors only.
    """
    starting(quiet)
    from fedjax_mos.lab.searches.search import search

    experiment = studied(method, settings, quiet)
    check_target(target)
    if every_method:
        others = (over, points, budget, rungs, hyperband, width, metric, independent)
        _check_all(*others, eta != 4, unit != "rounds")
        _search_all(experiment, random, seeds, target, out, quiet)
        return
    listed, tried = tried_by(experiment, points, over, search)
    all_cores()
    with resumable(out, "search") as folder:
        found = search(
            experiment,
            listed,
            seeds=seeds,
            random=random,
            independent=independent,
            eta=eta,
            rungs=rungs,
            hyperband=hyperband,
            budget=budget,
            unit=unit,
            metric=metric,
            width=width,
            out=folder,
            progress=not quiet,
            **tried,
        )
    print(found.text(target))
    written(lambda: found.write(folder, target), folder)
    end_study(folder, found)


def _check_all(*others: object) -> None:
    """Methods are compared at the same cost, which options for one might change."""
    if any(others):
        raise ValueError(
            "--all takes of the options of a search only --random, --seeds, --target "
            "and --out: every method is to have the same budget"
        )


def _search_all(
    experiment: "Experiment",
    random: int | None,
    seeds: int,
    target: float | None,
    out: Path | None,
    quiet: bool,
) -> None:
    from fedjax_mos.lab.searches.all_methods import DRAWS, search_all

    all_cores()
    draws = DRAWS if random is None else random
    with resumable(out, "search") as folder:
        found = search_all(
            experiment, random=draws, seeds=seeds, out=folder, progress=not quiet
        )
    print(found.printed(target).text())
    print(f"{folder / 'tuned.toml'} has the numbers")
    end(folder, found.complete, f"fedjax-mos resume {folder} resumes it")
