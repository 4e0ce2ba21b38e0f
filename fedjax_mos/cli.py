"""The command line: fedjax-mos run | compare | sweep | tune | list | data."""

import dataclasses
import inspect
import json
import sys
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import tyro

from fedjax_mos import catalog, options, report
from fedjax_mos.data import fetch
from fedjax_mos.experiment import Experiment, Result
from fedjax_mos.gradients import versus
from fedjax_mos.gradients.hypergrad import FEDMOS
from fedjax_mos.gradients.tune import STEP_SIZE, usual
from fedjax_mos.gradients.tune import tune as run_tune
from fedjax_mos.machine import use_all_cores
from fedjax_mos.setting import Setting
from fedjax_mos.sweeps.grid import parse_over
from fedjax_mos.sweeps.sweep import sweep as run_sweep

Flat = tyro.conf.arg(name="")
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
INTERRUPTED = 130


def run(
    experiment: Annotated[Experiment, Flat],
    settings: Settings = (),
    out: Path | None = None,
    target: float | None = None,
) -> None:
    """Run one experiment and write its history, summary and curves to a folder.

    Args:
        experiment: What to run.
        settings: Any option of any component: --set lr=0.1 --set partition.alpha=0.3.
        out: Folder for the results; by default a new one under runs/.
        target: Test accuracy of "rounds to target"; by default the data set's.
    """
    experiment = dataclasses.replace(experiment, options=options.parse(settings))
    folder = _new_folder(out, f"{experiment.algorithm}-{experiment.sampler}")
    target = _target(target, experiment)
    use_all_cores()
    result = experiment.run()
    title = f"{experiment.algorithm}/{experiment.sampler}"
    done = report.write(folder, config(experiment), result.history, target, title)
    reached = done["rounds_to_target"]
    print(
        f"{title} on {experiment.dataset}: test accuracy "
        f"{100 * done['final_accuracy']:.1f} % after {done['rounds']} rounds; "
        f"{100 * target:g} % {f'at round {reached}' if reached else 'not reached'}"
    )
    print(f"results in {folder}")
    _end(result)


def compare(
    setting: Annotated[Setting, Flat],
    algorithms: tuple[str, ...] = ("fedmos/acs", "fedmos/ucs", "fedavg/ucs"),
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
        algorithms: Members as ALGORITHM or ALGORITHM/SAMPLER.
        sampler: The sampler of members that name none.
        seeds: Number of seeds, run as one program.
        seed: The first seed.
        settings: Any option: --set lr=0.1 for every member that has it, --set
            fedavg.lr=0.1 for one algorithm.
        out: Folder for the results; by default a new one under runs/.
        target: Test accuracy of "rounds to target"; by default the data set's.
    """
    names = tuple(n if "/" in n else f"{n}/{sampler}" for n in algorithms)
    members = _members(setting, names, options.parse(settings), seed)
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1: got {seeds}")
    folder = _new_folder(out, "compare")
    use_all_cores()
    target = _target(target, next(iter(members.values())))
    histories = {}
    for name, member in members.items():
        print(f"{name} ({seeds} seeds)", file=sys.stderr)
        result = member.run(seeds)
        histories[name] = result.history
        inside = folder / name.replace("/", "-")
        report.write(
            inside, config(member) | {"seeds": seeds}, result.history, target, name
        )
        table = report.comparison(histories, target)
        table.to_csv(folder / "comparison.csv")
        figure = report.curves(histories, f"{setting.dataset}, {seeds} seeds")
        figure.savefig(folder / "curves.png", dpi=120)
        if _interrupted(result):
            break
    print(report.as_text(table, target))
    print(f"results in {folder}")
    _end(result)


def sweep(
    experiment: Annotated[Experiment, Flat],
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
        experiment: What to run.
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
        out: Folder for the results; one of the same sweep is gone on with.
    """
    experiment = dataclasses.replace(experiment, options=options.parse(settings))
    folder = out or _new_folder(None, "sweep")
    target = _target(target, experiment)
    tried: dict[str, Any] = parse_over(over)
    for name in tried.keys() & inspect.signature(run_sweep).parameters.keys():
        raise ValueError(f"{name} is no option to sweep over: say --{name}")
    use_all_cores()
    metrics = experiment.build().metrics()
    if metric not in (None, *metrics):
        raise ValueError(f"metric must be one of {', '.join(metrics)}: got {metric}")
    cube = run_sweep(
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
    print(cube.table(target, metric).head(10).to_string(float_format="{:.4g}".format))
    print(f"results in {folder}")
    if not cube.complete:
        print("interrupted: the same command with --out goes on", file=sys.stderr)
        raise SystemExit(INTERRUPTED)


def tune(
    experiment: Annotated[Experiment, Flat],
    wrt: tuple[str, ...] = FEDMOS,
    objective: str = "valid_loss",
    updates: int = 25,
    seeds: int = 1,
    step_size: float = STEP_SIZE,
    settings: Settings = (),
    versus_sweep: bool = True,
    out: Path | None = None,
) -> None:
    """Tune an experiment's numbers by gradient through its whole run.

    Args:
        experiment: What to tune, from the numbers that it has.
        wrt: The numbers, by name.
        objective: A loss after the last round, of held-out data by default.
        updates: Steps of the optimizer (Adam), each with one gradient.
        seeds: Number of seeds that a gradient is averaged over.
        step_size: Largest step on the log or logit scale of a number.
        settings: Where to start: --set lr=0.01 --set storm=0.5.
        versus_sweep: Also plot a random sweep that costs as many rounds.
        out: Folder for the results; by default a new one under runs/.
    """
    experiment = dataclasses.replace(experiment, options=options.parse(settings))
    folder = _new_folder(out, "tune")
    optimizer = usual(step_size)
    use_all_cores()
    tuned = run_tune(
        experiment, wrt, objective, updates=updates, seeds=seeds, optimizer=optimizer
    )
    way = tuned.trajectory
    folder.mkdir(parents=True, exist_ok=True)
    way.to_csv(folder / "trajectory.csv", index=False)
    report.write_json(folder / "config.json", config(experiment) | {"seeds": seeds})
    numbers = jax.tree.map(lambda leaf: leaf.tolist(), tuned.numbers)
    report.write_json(folder / "tuned.json", {"numbers": numbers})
    versus.picture(tuned).savefig(folder / "trajectory.png", dpi=120)
    best = way[objective].where(way["unstable"] == "").min()
    print(f"{objective} {way[objective][0]:.4g} -> {best:.4g} in {len(way)} updates")
    single = {n: v for n, v in numbers.items() if isinstance(v, float)}
    print(" ".join(f"--set {name}={value:g}" for name, value in single.items()))
    if wild := int((way["unstable"] != "").sum()):
        print(f"{wild} points had an unstable horizon: see trajectory.csv")
    print(f"results in {folder}")
    if len(way) < updates:
        raise SystemExit(INTERRUPTED)
    if versus_sweep:
        cube = versus.rival(experiment, wrt, tuned, seeds=seeds)
        versus.picture(tuned, cube).savefig(folder / "trajectory.png", dpi=120)
        found = cube.cells(objective)["mean"].min()
        cost = "the same cost" if cube.complete else "less cost (interrupted)"
        print(f"random sweep of {cost}: {found:.4g}")


def list_components(json_: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """Show every name with its hyperparameters, defaults and paper.

    Args:
        json_: One JSON object instead of text.
    """
    listing = catalog.listing()
    if json_:
        print(json.dumps(listing, indent=2))
        return
    for kind, entries in listing.items():
        print(f"{kind}:")
        for entry in entries:
            values = ", ".join(f"{k}={v}" for k, v in entry["hyperparameters"].items())
            print(f"  {entry['name']:<20} {values}")
            for dataset, tuned in entry["tuned"].items():
                values = ", ".join(f"{k}={v}" for k, v in tuned.items())
                print(f"  {'':<20} on {dataset}: {values}")
            print(f"  {'':<20} {entry['reference']}")


def data(
    action: tyro.conf.Positional[Literal["get"]], name: tyro.conf.Positional[str]
) -> None:
    """Fetch a data set into the cache folder, where later runs find it.

    Args:
        action: get.
        name: A data set's name.
    """
    print(f"{name} is in {fetch.get(name)}")


def config(experiment: Experiment) -> dict[str, Any]:
    """All that is needed to repeat an experiment."""
    return dataclasses.asdict(experiment) | {
        "components": {
            kind: name for kind, (name, _) in experiment.components().items()
        },
        "chosen": experiment.chosen(),
        "versions": {
            name: version(name) for name in ("fedjax_mos", "jax", "flax", "optax")
        },
        "platform": jax.default_backend(),
    }


def main(args: list[str] | None = None) -> None:
    """Entry point; a wrong argument ends with one message and exit status 2."""
    app = tyro.extras.SubcommandApp()
    app.command(run)
    app.command(compare)
    app.command(sweep)
    app.command(tune)
    app.command(name="list")(list_components)
    app.command(data)
    try:
        app.cli(prog="fedjax-mos", description=__doc__, args=args)
    except (ValueError, OSError) as error:
        print(f"fedjax-mos: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("fedjax-mos: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None


def _members(
    setting: Setting, names: tuple[str, ...], given: Mapping[str, str], seed: int
) -> dict[str, Experiment]:
    """Name -> experiment; an option goes to every member that has it."""
    shared = {f.name: getattr(setting, f.name) for f in dataclasses.fields(setting)}
    members = {}
    for name in names:
        algorithm, _, sampler = name.partition("/")
        members[name] = Experiment(
            **shared, algorithm=algorithm, sampler=sampler, seed=seed
        )
    known = {name: member.components() for name, member in members.items()}
    for option in given:
        if not any(options.accepts(option, parts) for parts in known.values()):
            options.home(option, next(iter(known.values())))  # raises
    return {
        name: dataclasses.replace(
            member,
            options={k: v for k, v in given.items() if options.accepts(k, known[name])},
        )
        for name, member in members.items()
    }


def _new_folder(out: Path | None, name: str) -> Path:
    """Where results go; never one that already holds some."""
    folder = out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"out must be a new or empty folder: {folder} is not")
    return folder


def _target(target: float | None, experiment: Experiment) -> float:
    """The accuracy that is asked for, or what is usual for the data set."""
    if target is None:
        return experiment.habit.target
    if not 0 < target <= 1:
        raise ValueError(f"target must lie in (0, 1]: got {target}")
    return target


def _interrupted(result: Result) -> bool:
    return int(result.history["round"].max()) < result.experiment.rounds


def _end(result: Result) -> None:
    if _interrupted(result):
        raise SystemExit(INTERRUPTED)
