"""Commands that train many times: sweeps and tunings."""

from pathlib import Path
from typing import Annotated, Any

from fedjax_mos.cli.arguments import (
    Flat,
    Over,
    Points,
    Settings,
    all_cores,
    check_target,
    empty_folder,
    end,
    experiment_of,
    new_folder,
    starting,
)
from fedjax_mos.lab.setting import Method


def sweep_options(
    method: Annotated[Method, *Flat],
    over: Over = (),
    points: Points = (),
    random: int | None = None,
    seeds: int = 5,
    independent: bool = False,
    width: int | None = None,
    settings: Settings = (),
    metric: str | None = None,
    target: float | None = None,
    out: Path | None = None,
) -> None:
    """Run an experiment with many configurations and seeds as one program.

    Args:
        method: What to run.
        over: Any option or field: --over lr=0.1,0.3,1 --over algorithm=fedavg,fedmos;
            all combinations are tried. With --random also --over lr=log:0.01:1 or
            --over storm=uniform:0:1.
        points: One configuration: --point lr=0.1,storm=0.9 --point lr=0.3,storm=0.5.
        random: Number of draws from the ranges.
        seeds: Number of seeds of every configuration.
        independent: Other seeds for every configuration.
        width: Runs at a time; by default as many as fit a CPU's caches, or 1 GiB of an
            accelerator.
        settings: What all have in common: --set prox=0.01.
        metric: What the best is chosen by; by default the validation accuracy.
        target: Test accuracy of "rounds to target"; by default the data set's.
        out: Folder for the results; one of the same sweep is resumed.
    """
    starting()
    from fedjax_mos.lab import options
    from fedjax_mos.lab.sweeps.grid import parse_over
    from fedjax_mos.lab.sweeps.sweep import check_names, sweep

    experiment = experiment_of(method, settings)
    folder = out or new_folder(None, "sweep")
    check_target(target)
    tried: dict[str, Any] = parse_over(over)
    check_names(tried)
    all_cores()
    if metric not in (None, *(known := experiment.build().metrics())):
        raise ValueError(f"metric must be one of {', '.join(known)}: got {metric}")
    cube = sweep(
        experiment,
        [options.parse(p.split(","), "--point") for p in points] or None,
        seeds=seeds,
        random=random,
        independent=independent,
        width=width,
        out=folder,
        **tried,
    )
    cube.write(folder, target, metric)
    print(cube.text(target, metric))
    if "algorithm" in cube.axes:
        print(cube.printed(target, metric, per="algorithm").text())
    end(folder, cube.complete, "the same command with --out resumes it")


def tune_numbers(
    method: Annotated[Method, *Flat],
    wrt: tuple[str, ...] | None = None,
    objective: str | None = None,
    updates: int = 25,
    seeds: int = 1,
    step_size: float = 0.3,
    settings: Settings = (),
    versus_sweep: bool = True,
    out: Path | None = None,
) -> None:
    """Tune an experiment's numbers by gradient through its whole run.

    Args:
        method: What to tune, from the numbers that it has.
        wrt: The numbers, by name; by default all of the algorithm.
        objective: A loss after the last round, of held-out data by default.
        updates: Steps of the optimizer (Adam), each with one gradient.
        seeds: Number of seeds that a gradient is averaged over.
        step_size: Largest step on the log or logit scale of a number.
        settings: Where to start: --set lr=0.01 --set storm=0.5.
        versus_sweep: Also plot a random sweep that costs as many rounds.
        out: Folder for the results; by default a new one under runs/.
    """
    starting()
    from fedjax_mos.lab.hypergradients.random_baseline import random_baseline
    from fedjax_mos.lab.hypergradients.tune import default_optimizer, tune

    experiment = experiment_of(method, settings)
    folder, optimizer = empty_folder(out, "tune"), default_optimizer(step_size)
    all_cores()
    tuned = tune(
        experiment, wrt, objective, updates=updates, seeds=seeds, optimizer=optimizer
    )
    tuned.write(folder)
    print(tuned.table().to_string(float_format="{:.4g}".format))
    if wild := int((tuned.frame["unstable"] != "").sum()):
        print(f"{wild} points had an unstable horizon: see trajectory.csv")
    if versus_sweep and tuned.complete:
        cube = random_baseline(experiment, wrt, tuned, seeds=seeds)
        tuned.write(folder, cube)
        found = cube.cells(tuned.objective)["mean"].min()
        cost = "the same cost" if cube.complete else "less cost (interrupted)"
        print(f"random sweep of {cost}: {found:.4g}")
    end(folder, tuned.complete)
