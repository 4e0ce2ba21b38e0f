"""What commands have in common: their arguments, where results go, how they end.

What a command needs is imported when it runs: a help text or a wrong argument should
not wait for JAX.
"""

import itertools
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from fedjax_mos.cli.app import DIVERGED, INTERRUPTED, UNWRITTEN

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment
    from fedjax_mos.lab.setting import Method
    from fedjax_mos.lab.showing import Shown
    from fedjax_mos.lab.sweeps.cube import Cube

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
Quiet = Annotated[bool, tyro.conf.FlagCreatePairsOff]
All = Annotated[bool, tyro.conf.arg(name="all"), tyro.conf.FlagCreatePairsOff]
Schedules = Annotated[
    tuple[str, ...],
    tyro.conf.UseAppendAction,
    tyro.conf.arg(name="schedule", metavar="NAME=SHAPE"),
]


def experiment_of(method: "Method", settings: tuple[str, ...]) -> "Experiment":
    """What was said on the command line, as an experiment."""
    from fedjax_mos.lab import options
    from fedjax_mos.lab.experiment import Experiment

    return Experiment(**vars(method) | {"options": options.parse(settings)})


def say_columns(experiment: "Experiment", quiet: bool) -> None:
    """What the columns of a CSV file are taken for: a wrong guess trains as well."""
    from fedjax_mos.data.sources.named import said_of

    options = experiment.parts["dataset"].spec.options
    said = said_of(experiment.dataset_name, **options)
    if said and not quiet:
        print(said, file=sys.stderr)


def starting(quiet: bool) -> None:
    """Something to see at once: importing JAX takes a second or two."""
    if not quiet:
        print("starting JAX", file=sys.stderr, flush=True)


def all_cores() -> None:
    """Before JAX starts."""
    from fedjax_mos.machine import use_all_cores

    use_all_cores()


def new_folder(out: Path | None, name: str) -> Path:
    """Where results go: as said, or a folder under runs/ that nobody else has."""
    if out is not None:
        return out
    from fedjax_mos.processes import from_first, is_first

    made = str(_made(name)) if is_first() else ""
    return Path(from_first(made.encode()).decode())


def _made(name: str) -> Path:
    first = Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        try:
            with writable(folder):
                folder.mkdir(parents=True)
        except FileExistsError:  # of a run that was started in the same second
            continue
        break
    return folder


@contextmanager
def results_in(out: Path | None, name: str) -> Iterator[Path]:
    """`new_folder`; one under runs/ goes again where nothing could be run."""
    folder = new_folder(out, name)
    try:
        yield folder
    except (ValueError, RuntimeError, MemoryError):
        from fedjax_mos.lab.run_folder import is_empty

        if out is None and folder.exists() and is_empty(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def writable(path: Path, kind: str = "folder") -> Iterator[None]:
    """Name the argument where the system only says what it did not like."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise ValueError(
            f"out must be a {kind} that can be written: {path} cannot "
            f"({error.strerror})"
        ) from error


def check_alone(method: "Method", settings: tuple[str, ...], seeds: int | None) -> None:
    """Refuse options beside a config.json, which says everything."""
    from fedjax_mos.lab.setting import Method

    if settings or seeds is not None or method != Method():
        raise ValueError("config says everything: give no other option with it")


def check_target(target: float | None) -> None:
    """Refuse a target that no accuracy can have."""
    from fedjax_mos.lab.summaries import check_target

    if target is not None:
        check_target(target, "accuracy")


def check_track(track: tuple[str, ...]) -> None:
    """Refuse trackers that are not known or not installed."""
    from fedjax_mos.lab.trackers import check_trackers

    check_trackers(track, Path())


def end_run(folder: Path, shown: "Shown") -> None:
    """Say where results are; exit with a status that says how it ended."""
    from fedjax_mos.processes import is_first

    if shown.complete and is_first() and not _is_written(folder):
        raise SystemExit(UNWRITTEN)  # why has been said
    first = next(iter(shown.members.values())).frame
    personal = [name for name in map(str, first) if name.startswith("personal_")]
    if personal:
        mean = next(name for name in personal if name.endswith("_client_mean"))
        print(f"of personal models: fedjax-mos table {folder} --metric {mean}")
    hint = f"fedjax-mos resume {folder} resumes it"
    if any(one.full for one in shown.members.values()):
        end(folder, True)
        print(f"the disk is full: with more room {hint}", file=sys.stderr)
        raise SystemExit(UNWRITTEN)
    end(folder, shown.complete, hint)
    if lost := shown.diverged:
        text = "; ".join(f"{name} in round {at}" for name, at in lost.items())
        print(f"diverged: {text}. Try a smaller step size (lr).", file=sys.stderr)
        raise SystemExit(DIVERGED)


def end_study(folder: Path, cube: "Cube") -> None:
    """Say where a sweep or search is, and whether it has found anything."""
    end(folder, cube.complete, f"fedjax-mos resume {folder} resumes it")
    if cube.diverged:
        print(
            "diverged: every configuration has a run that did. Try smaller step sizes "
            "(lr).",
            file=sys.stderr,
        )
        raise SystemExit(DIVERGED)


def written(write: Callable[[], None], folder: Path) -> None:
    """Write results that were printed; the exit status says where that fails.

    Of several processes the first writes.
    """
    from fedjax_mos.processes import is_first

    try:
        if is_first():
            write()
    except OSError as error:
        print(f"could not write to {folder}: {error}", file=sys.stderr)
        raise SystemExit(UNWRITTEN) from None


def end(folder: Path, complete: bool, hint: str = "") -> None:
    """Say where results are, and whether they are whole."""
    for picture in sorted(folder.glob("*.png")):
        print(f"picture: {picture}")
    print(f"results in {folder}")
    if not complete:
        print(f"interrupted{': ' * bool(hint)}{hint}", file=sys.stderr)
        raise SystemExit(INTERRUPTED)


def _is_written(folder: Path) -> bool:
    """Whether a folder says that it has everything, which it does last."""
    from fedjax_mos.lab import folders

    try:
        return bool(folders.read_json(folder / folders.CONFIG)["complete"])
    except OSError:
        return False
