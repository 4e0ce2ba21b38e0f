"""The libraries that a run may be shown in, each behind `log`, `flush` and `close`."""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_PROJECT = "fedjax_mos"
Log = Callable[[int, dict[str, float]], None]  # round, numbers by name


def _nothing() -> None:
    pass


class Writer(NamedTuple):
    """One run in one library."""

    log: Log
    flush: Callable[[], None] = _nothing
    close: Callable[[], None] = _nothing


class Library(NamedTuple):
    """A package, and how a run is opened in it.

    `open` is given the run's folder, its id, the last round that was told before, and
    its configuration.
    """

    package: str
    open: Callable[[Path, str, int, Mapping[str, Any]], Writer]


def _tensorboard(
    folder: Path, run_id: str, told: int, config: Mapping[str, Any]
) -> Writer:
    from tensorboardX import SummaryWriter

    # Of a run that was killed, TensorBoard forgets what lies behind the last mark.
    purge = told + 1 if told else None
    board = SummaryWriter(
        str(folder / "tensorboard"), purge_step=purge, filename_suffix=f".{told}"
    )

    def log(number: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            board.add_scalar(name, value, number)

    return Writer(log, board.flush, board.close)


def _wandb(folder: Path, run_id: str, told: int, config: Mapping[str, Any]) -> Writer:
    run = importlib.import_module("wandb").init(
        project=_PROJECT,
        name=folder.name,
        id=run_id,
        resume="allow",
        dir=str(folder),
        config=dict(config),
        reinit="create_new",
    )
    return Writer(lambda number, values: run.log(values, step=number), close=run.finish)


def _trackio(folder: Path, run_id: str, told: int, config: Mapping[str, Any]) -> Writer:
    run = importlib.import_module("trackio").init(
        project=_PROJECT,
        name=f"{folder.name}-{run_id[:8]}",  # which it finds a run again by
        resume="allow",
        config=dict(config),
        embed=False,
    )
    return Writer(lambda number, values: run.log(values, step=number), close=run.finish)


WRITERS = {
    "tensorboard": Library("tensorboardX", _tensorboard),
    "wandb": Library("wandb", _wandb),
    "trackio": Library("trackio", _trackio),
}
