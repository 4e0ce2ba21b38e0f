"""The command line: fedjax-mos run | compare | list | data."""

import dataclasses
import json
import os
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
from fedjax_mos.setting import Setting

Flat = tyro.conf.arg(name="")
Settings = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="set", metavar="NAME=VALUE"),
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
    _use_devices(experiment.backend)
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
    _use_devices(setting.backend)
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
    app.command(name="list")(list_components)
    app.command(data)
    try:
        app.cli(prog="fedjax-mos", description=__doc__, args=args)
    except (ValueError, OSError) as error:
        print(f"fedjax-mos: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("fedjax-mos: interrupted before the first rounds", file=sys.stderr)
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


def _use_devices(backend: str) -> None:
    """One CPU device per core where clients are to be split over devices."""
    if backend.startswith("sharded"):
        jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)


def _interrupted(result: Result) -> bool:
    return int(result.history["round"].max()) < result.experiment.rounds


def _end(result: Result) -> None:
    if _interrupted(result):
        raise SystemExit(INTERRUPTED)
