"""What commands have in common: their arguments, where results go, how they end.

What a command needs is imported when it runs: a help text or a wrong argument should
not wait for JAX.
"""

import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from fedjax_mos.cli.app import DIVERGED, INTERRUPTED

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment
    from fedjax_mos.lab.setting import Method
    from fedjax_mos.lab.showing import Shown

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


def experiment_of(method: "Method", settings: tuple[str, ...]) -> "Experiment":
    """What was said on the command line, as an experiment."""
    from fedjax_mos.lab import options
    from fedjax_mos.lab.experiment import Experiment

    return Experiment(**vars(method) | {"options": options.parse(settings)})


def starting() -> None:
    """Something to see at once: importing JAX takes a second or two."""
    print("starting JAX", file=sys.stderr, flush=True)


def all_cores() -> None:
    """Before JAX starts."""
    from fedjax_mos.machine import use_all_cores

    use_all_cores()


def new_folder(out: Path | None, name: str) -> Path:
    """Where results go: as said, or a folder under runs/ that nobody else has."""
    if out is not None:
        return out
    first = Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # of a run that was started in the same second
            continue
        break
    return folder


def empty_folder(out: Path | None, name: str) -> Path:
    """The same; refused unless it is empty."""
    folder = new_folder(out, name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"out must be a new or empty folder: {folder} is not")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def repeated(
    config: Path, method: "Method", settings: tuple[str, ...]
) -> "tuple[Experiment, int | None]":
    """The experiment and the number of seeds that a config.json tells of."""
    from fedjax_mos.lab import run_folder
    from fedjax_mos.lab.setting import Method

    if settings or method != Method():
        raise ValueError("config says everything: give no other option with it")
    return run_folder.repeated(config)


def check_target(target: float | None) -> None:
    """Refuse a target that no accuracy can have."""
    from fedjax_mos.lab.summaries import check_target

    if target is not None:
        check_target(target, "accuracy")


def end_run(folder: Path, shown: "Shown") -> None:
    """Say where results are; exit with a status that says how it ended."""
    end(folder, shown.complete, f"fedjax-mos resume {folder} resumes it")
    if lost := shown.diverged:
        text = "; ".join(f"{name} in round {at}" for name, at in lost.items())
        print(f"diverged: {text}. Try a smaller step size (lr).", file=sys.stderr)
        raise SystemExit(DIVERGED)


def end(folder: Path, complete: bool, hint: str = "") -> None:
    """Say where results are, and whether they are whole."""
    print(f"results in {folder}")
    if not complete:
        print(f"interrupted{': ' * bool(hint)}{hint}", file=sys.stderr)
        raise SystemExit(INTERRUPTED)
