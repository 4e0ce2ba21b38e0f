"""Experiments that cannot fit the machine, refused before anything is allocated."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from fedjax_mos.engine.ahead import check_sampler
from fedjax_mos.lab.population import Population
from fedjax_mos.machine import device_memory
from fedjax_mos.memory import check_fits, gib, machine_memory
from fedjax_mos.tree import bytes_of
from fedjax_mos.types import Params, RoundState, Row, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedjax_mos.lab.experiment import Experiment

COPIES = 2  # of the state at the peak: that of the blocks, and while it is placed
# Trees of parameters, or fewer: what a method and its channels keep per client, and
# what a client at work needs (model, gradient and the like).
TREES = 4
_STEP = 12  # bytes of a local step's key and epoch
_NUMBER = 4  # bytes of an input as a model sees it, and of an example's position


def run_memory() -> int:
    """Bytes that a run may take: those of the devices, or of the host if it has less.

    What accelerators hold passes through the host, as it is placed and as it is kept.
    """
    host, each = machine_memory(), device_memory()
    return host if each is None else min(host, each * jax.device_count())


def check_work(
    experiment: "Experiment", people: Population, sim: Simulation, steps: int
) -> None:
    """Refuse minibatches that cannot fit the machine: the least that `steps` take.

    That is one batch, and the positions of the examples of all steps, for every client
    of the cohort that is worked on at once.
    """
    passes, slots = experiment.epochs, at_once(sim.backend.name, experiment.cohort)
    work = f"{steps:,} local steps" if passes is None else f"{passes:,} epochs"
    check_fits(
        f"a batch_size of {experiment.batch_size:,} in {work}, for {slots:,} clients "
        "at a time,",
        slots * batch_bytes(experiment, people, steps),
        "take smaller batches, fewer steps or epochs",
        run_memory(),
    )


def batch_bytes(experiment: "Experiment", people: Population, steps: int) -> int:
    """Of one client: one batch, and the positions of the examples of all steps."""
    inputs = jax.tree.leaves(people.train.x)
    numbers = sum(leaf.size // max(leaf.shape[0], 1) for leaf in inputs)
    batch = experiment.batch_size
    return batch * _NUMBER * (numbers + steps) + _STEP * steps


def rows_on_disk(
    experiment: "Experiment",
    people: Population,
    model: Params,
    shapes: "Callable[[], Params]",
    lanes: int,
) -> bool:
    """Whether clients' rows are to be kept on disk; refuse what cannot fit anywhere.

    The state is held twice at the peak, the data once. That of small models and
    populations is not even looked at, since this takes tracing.
    """
    asked, size, room = experiment.rows, bytes_of(model), run_memory()
    count, name = _largest_count(experiment)
    trees = TREES * (people.clients + 1) * size
    if asked != "disk" and (trees + _NUMBER * count) * lanes < room // 4:
        return False
    numbers = sum(leaf.size for leaf in jax.tree.leaves(model))
    where = (
        f"{experiment.title} with a model {experiment.parts['model'].name} of "
        f"{numbers:,} numbers, {people.clients:,} clients and {lanes:,} seeds"
    )
    advice = "take fewer clients or seeds, a smaller model or a method without state"
    if _NUMBER * count > trees:
        where, advice = f"{where}, {name}={count},", f"take a smaller {name}"
    # Before the bits are counted.
    check_fits(where, COPIES * size * lanes, advice, room)
    state = shapes()
    rows, data = bytes_of(state.clients), bytes_of(people.train)
    needed = COPIES * bytes_of(state) * lanes + data
    if asked == "disk" and lanes > 1:
        raise ValueError(
            f"rows must not be disk with several runs as one program: got {lanes:,}"
        )
    if asked == "disk":
        return bool(rows)
    if asked == "memory" or lanes > 1 or not rows:
        check_fits(where, needed, advice, room)
    if needed <= room:
        return False
    check_fits(where, needed - COPIES * rows, advice, room)
    print(
        f"{where} needs {gib(needed)} and the machine has {gib(room)}: "
        f"the clients' rows, {gib(rows)}, are kept on disk",
        file=sys.stderr,
    )
    return True


def check_working(
    experiment: "Experiment", people: Population, sim: Simulation, state: RoundState
) -> None:
    """Refuse what needs all rows and examples at once, which are not there."""
    generated = people.generated is not None
    check_sampler(sim, people.train, state, generated)
    where = "where rows are on disk or clients are generated"
    by_example = "squared_gradient_norm"  # the only one that asks no client
    if wrong := [name for name in experiment.diagnostics if name != by_example]:
        raise ValueError(f"diagnostics must not have {wrong[0]} {where}")
    if experiment.per_client != "off" and generated:
        raise ValueError(
            f"per_client must be off for generated clients: got {experiment.per_client}"
        )


def check_room(row: Row, clients: int, folder: Path | None) -> None:
    """Refuse rows that the disk cannot hold: `row` has one of them.

    Without a `folder` the row store makes a temporary one.
    """
    place = folder or Path(tempfile.gettempdir())
    held = sum(f.stat().st_size for f in folder.glob("*.records")) if folder else 0
    while not place.exists():
        place = place.parent
    needed, free = clients * bytes_of(row), shutil.disk_usage(place).free + held
    if needed > free:
        raise ValueError(
            f"the rows of {clients:,} clients need at least {gib(needed)} and the disk "
            f"of {place} has {gib(free)}: take fewer clients or another folder"
        )


def _largest_count(experiment: "Experiment") -> tuple[int, str]:
    """Of the options that may shape the state, and its name."""
    static = [part.spec.static.items() for part in experiment.parts.values()]
    counts = [(v, n) for pairs in static for n, v in pairs if type(v) is int]
    return max(counts, default=(0, ""))


def at_once(layout: str, cohort: int) -> int:
    """Clients that a layout has at work at a time; one, where it does not say.

    >>> at_once("vmapped", 10), at_once("clients over 2 devices, each chunked:3", 10)
    (10, 3)
    """
    if layout.endswith("vmapped"):
        return cohort
    slots = layout.rpartition(":")[2]
    return min(int(slots), cohort) if slots.isdigit() else 1
