"""Commands that train many times: sweeps and tunings."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fedjax_mos.cli.arguments import (
    Flat,
    Over,
    Points,
    Quiet,
    Schedules,
    Settings,
    all_cores,
    check_target,
    end,
    end_study,
    experiment_of,
    say_columns,
    starting,
    written,
)
from fedjax_mos.cli.together import ALONE, Processes, joined
from fedjax_mos.cli.words import resumable
from fedjax_mos.lab.setting import Method

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


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
    checkpoint_every: float = 60.0,
    processes: Annotated[Processes, *Flat] = ALONE,
    quiet: Quiet = False,
) -> None:
    """Run an experiment with many configurations and seeds as one program.

    Examples:
        fedjax-mos sweep --over lr=0.1,0.3 --over algorithm=fedavg,fedmos
        fedjax-mos sweep --random 64 --over lr=log:0.01:1 --over storm=uniform:0:1
        fedjax-mos sweep --point lr=0.1,storm=0.9 --point lr=0.3,storm=0.5

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
        metric: What the best is chosen by; by default the accuracy on validation or
            held-out examples.
        target: Test accuracy of "rounds to target"; by default the data set's.
        out: Folder for the results; one of the same sweep is resumed.
        checkpoint_every: Seconds between checkpoints of the runs under way.
        processes: Others that run this together.
        quiet: Print results and errors only.
    """
    with joined(processes):
        starting(quiet)
        from fedjax_mos.lab.sweeps.sweep import sweep

        experiment = studied(method, settings, quiet)
        check_target(target)
        listed, tried = tried_by(experiment, points, over, sweep)
        all_cores()
        if metric not in (None, *(known := experiment.build().metrics())):
            raise ValueError(f"metric must be one of {', '.join(known)}: got {metric}")
        with resumable(out, "sweep") as folder:
            cube = sweep(
                experiment,
                listed,
                seeds=seeds,
                random=random,
                independent=independent,
                width=width,
                out=folder,
                checkpoint_every=checkpoint_every,
                progress=not quiet,
                **tried,
            )
        print(cube.text(target, metric))
        if "algorithm" in cube.axes:
            print(cube.printed(target, metric, per="algorithm").text())
        written(lambda: cube.write(folder, target, metric), folder)
        end_study(folder, cube)


def studied(method: Method, settings: tuple[str, ...], quiet: bool) -> "Experiment":
    """What many values are tried of; those of --set would be a schedule."""
    from fedjax_mos.schedule import TooShortError

    try:
        experiment = experiment_of(method, settings)
    except TooShortError as error:
        listed = next(one for one in settings if "," in one)
        raise ValueError(f"{error}; --over {listed} tries one by one") from None
    say_columns(experiment, quiet)
    return experiment


def tried_by(
    experiment: "Experiment",
    points: tuple[str, ...],
    over: tuple[str, ...],
    study: Callable,
) -> tuple[list[dict[str, Any]] | None, dict[str, Any]]:
    """Configurations one by one (None: none), and values by name."""
    from fedjax_mos.lab import options
    from fedjax_mos.lab.sweeps.grid import parse_over
    from fedjax_mos.lab.sweeps.sweep import check_names

    tried: dict[str, Any] = parse_over(over)
    check_names(tried, study)
    listed = [options.parse(p.split(","), "--point") for p in points]
    for name in [*tried, *(name for point in listed for name in point)]:
        if twice := options.named_by(name, experiment.options, experiment.parts):
            raise ValueError(f"{name} is given twice: {twice} by --set, and by values")
    return listed or None, tried


def tune_numbers(
    method: Annotated[Method, *Flat],
    wrt: tuple[str, ...] | None = None,
    objective: str | None = None,
    schedules: Schedules = (),
    candidates: int = 64,
    updates: int = 25,
    seeds: int = 1,
    step_size: float = 0.3,
    horizon: int | None = None,
    settings: Settings = (),
    versus_sweep: bool = True,
    out: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """Tune an experiment's numbers by gradient through its whole run.

    Examples:
        fedjax-mos tune --rounds 50 --set lr=0.001
        fedjax-mos tune --algorithm scaffold --wrt lr server_lr
        fedjax-mos tune --schedule lr=segments:10 --schedule prox=spline:4

    Args:
        method: What to tune, from the numbers that it has.
        wrt: The numbers, by name; by default all of the algorithm, or those with a
            schedule.
        objective: A loss after the last round, of held-out data by default.
        schedules: Numbers to be schedules: --schedule lr=segments:10 --schedule
            server_lr=spline:5, or =rounds for one value each.
        candidates: Random points among which a halving seeks a better start.
        updates: Points to try at most, each with one gradient.
        seeds: Number of seeds that a gradient is averaged over.
        step_size: Largest first step on the log or logit scale of a number.
        horizon: Rounds that gradients look back over; by default all, or as many as
            are stable.
        settings: Where to start: --set lr=0.01 --set storm=0.5.
        versus_sweep: Also plot a random sweep that costs as many rounds.
        out: Folder for the results; one of the same tuning is resumed.
        quiet: Print results and errors only.
    """
    starting(quiet)
    from fedjax_mos.lab import options
    from fedjax_mos.lab.hypergradients.random_baseline import random_baseline
    from fedjax_mos.lab.hypergradients.tune import tune

    experiment = experiment_of(method, settings)
    say_columns(experiment, quiet)
    shaped = options.parse(schedules, "--schedule")
    all_cores()
    with resumable(out, "tune") as folder:
        tuned = tune(
            experiment,
            wrt,
            objective,
            schedules=shaped,
            candidates=candidates,
            updates=updates,
            seeds=seeds,
            step_size=step_size,
            horizon=horizon,
            out=folder,
            progress=not quiet,
        )
    print(tuned.text())
    written(lambda: tuned.write(folder), folder)
    if wild := int((tuned.frame["unstable"] != "").sum()):
        print(f"{wild} points had an unstable horizon: see trajectory.csv")
    if versus_sweep and tuned.complete:
        names = wrt or tuple(shaped) or None
        sweeping = folder / "sweep"
        if not quiet:
            print(
                "now a random sweep of the same cost, to compare with "
                "(--no-versus-sweep leaves it out)",
                file=sys.stderr,
            )
        cube = random_baseline(
            experiment, names, tuned, seeds=seeds, out=sweeping, progress=not quiet
        )
        written(lambda: tuned.write(folder, cube), folder)
        found = cube.cells(tuned.objective)["mean"].min()
        cost = "the same cost" if cube.complete else "less cost (interrupted)"
        print(f"random sweep of {cost}: {found:.4g}")
    end(folder, tuned.complete, f"fedjax-mos resume {folder} resumes it")
