"""The commands: each parses, calls the lab and prints.

What a command needs is imported when it runs: a help text or a wrong argument should
not wait for JAX.
"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from fedjax_mos.cli.app import INTERRUPTED
from fedjax_mos.lab.default_names import DEFAULT_COMPARISON
from fedjax_mos.lab.setting import Method, Setting

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

# Fields as options of the command; what only Python can give is left out.
Flat = (tyro.conf.arg(name=""), tyro.conf.AvoidSubcommands)


Settings = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="set", metavar="NAME=VALUE"),
]
Over = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="over", metavar="NAME=VALUES"),
]
Points = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="point", metavar="NAME=VALUE,..."),
]


def run(
    method: Annotated[Method, *Flat],
    settings: Settings = (),
    out: Path | None = None,
    target: float | None = None,
) -> None:
    """Run one experiment and write its history, summary and curves to a folder.

    Args:
        method: What to run.
        settings: Any option of any component: --set lr=0.1 --set partition.alpha=0.3.
        out: Folder for the results; by default a new one under runs/.
        target: Test accuracy of "rounds to target"; by default the data set's.
    """
    _starting()
    experiment = experiment_of(method, settings)
    folder = _new_folder(out, experiment.title.replace("/", "-"))
    _check_target(target)
    _all_cores()
    result = experiment.run()
    result.write(folder, target)
    print(result.text(target))
    _end(folder, result.complete)


def compare_methods(
    setting: Annotated[Setting, *Flat],
    algorithms: tuple[str, ...] = DEFAULT_COMPARISON,
    sampler: str = "ucs",
    seeds: int = 5,
    seed: int = 0,
    settings: Settings = (),
    out: Path | None = None,
    target: float | None = None,
) -> None:
    """Compare methods on the same data, batches and (per sampler) cohorts.

    Args:
        setting: What the members have in common.
        algorithms: Members as ALGORITHM, ALGORITHM/SAMPLER or with numbers of their
            own, ALGORITHM/SAMPLER:lr=0.1,server_lr=1.
        sampler: The sampler of members that name none.
        seeds: Number of seeds, run as one program.
        seed: The first seed.
        settings: Any option: --set lr=0.1 for every member that has it, --set
            fedavg.lr=0.1 for one algorithm.
        out: Folder for the results; by default a new one under runs/.
        target: Test accuracy of "rounds to target"; by default the data set's.
    """
    _starting()
    from fedjax_mos.lab import options
    from fedjax_mos.lab.compare import compare, members_of

    given = options.parse(settings)
    members = members_of(setting, algorithms, given, sampler=sampler, seed=seed)
    folder = _new_folder(out, "compare")
    _check_target(target)
    _all_cores()
    found = compare(members, seeds, out=folder, target=target)
    print(found.text(target))
    _end(folder, found.complete)


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
    _starting()
    from fedjax_mos.lab import options
    from fedjax_mos.lab.sweeps.grid import parse_over
    from fedjax_mos.lab.sweeps.sweep import check_names, sweep

    experiment = experiment_of(method, settings)
    folder = out or _new_folder(None, "sweep")
    _check_target(target)
    tried: dict[str, Any] = parse_over(over)
    check_names(tried)
    _all_cores()
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
    _end(folder, cube.complete, "the same command with --out resumes it")


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
    _starting()
    from fedjax_mos.lab.hypergradients.random_baseline import random_baseline
    from fedjax_mos.lab.hypergradients.tune import default_optimizer, tune

    experiment = experiment_of(method, settings)
    folder, optimizer = _new_folder(out, "tune"), default_optimizer(step_size)
    _all_cores()
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
    _end(folder, tuned.complete)


def experiment_of(method: Method, settings: tuple[str, ...]) -> "Experiment":
    """What was said on the command line, as an experiment."""
    from fedjax_mos.lab import options
    from fedjax_mos.lab.experiment import Experiment

    return Experiment(**vars(method) | {"options": options.parse(settings)})


def _starting() -> None:
    """Something to see at once: importing JAX takes a second or two."""
    print("starting JAX", file=sys.stderr, flush=True)


def _all_cores() -> None:
    from fedjax_mos.machine import use_all_cores

    use_all_cores()


def _new_folder(out: Path | None, name: str) -> Path:
    """Where results go; never one that already holds some."""
    folder = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"out must be a new or empty folder: {folder} is not")
    return folder


def _check_target(target: float | None) -> None:
    from fedjax_mos.lab.summaries import check_target

    if target is not None:
        check_target(target, "accuracy")


def _end(folder: Path, complete: bool, hint: str = "") -> None:
    print(f"results in {folder}")
    if not complete:
        print(f"interrupted{': ' * bool(hint)}{hint}", file=sys.stderr)
        raise SystemExit(INTERRUPTED)
