"""Experiments that cannot fit the machine, refused before anything is allocated."""

from typing import TYPE_CHECKING

import jax

from fedjax_mos.lab.population import Population
from fedjax_mos.memory import check_fits, machine_memory
from fedjax_mos.tree import bytes_of
from fedjax_mos.types import Params, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedjax_mos.lab.experiment import Experiment

_TREES = 4  # of parameters, that a method and its channels keep per client, or fewer
_STEP = 12  # bytes of a local step's key and epoch
_NUMBER = 4  # bytes of an input as a model sees it, and of an example's position


def check_work(
    experiment: "Experiment", people: Population, sim: Simulation, steps: int
) -> None:
    """Refuse minibatches that cannot fit the machine: the least that `steps` take.

    That is one batch, and the positions of the examples of all steps, for every client
    of the cohort that is worked on at once.
    """
    inputs = jax.tree.leaves(people.train.x)
    numbers = sum(leaf.size // max(leaf.shape[0], 1) for leaf in inputs)
    batch, slots = experiment.batch_size, _at_once(sim.backend.name, experiment.cohort)
    passes = experiment.epochs
    work = f"{steps:,} local steps" if passes is None else f"{passes:,} epochs"
    check_fits(
        f"a batch_size of {batch:,} in {work}, for {slots:,} clients at a time,",
        slots * (batch * _NUMBER * (numbers + steps) + _STEP * steps),
        "take smaller batches, fewer steps or epochs",
    )


def check_state(
    experiment: "Experiment",
    people: Population,
    model: Params,
    shapes: "Callable[[], Params]",
    lanes: int,
) -> None:
    """Refuse a state that cannot fit the machine, by its shapes.

    It is held three times: as the caller's, as the blocks' own, and as that of the
    round under way; the data once. That of small models and populations is not even
    looked at, since this takes tracing.
    """
    size = bytes_of(model)
    count, name = _largest_count(experiment)
    trees = _TREES * (people.clients + 1) * size
    if (trees + _NUMBER * count) * lanes < machine_memory() // 4:
        return
    numbers = sum(leaf.size for leaf in jax.tree.leaves(model))
    where = (
        f"{experiment.title} with a model {experiment.parts['model'].name} of "
        f"{numbers:,} numbers, {people.clients:,} clients and {lanes:,} seeds"
    )
    advice = "take fewer clients or seeds, a smaller model or a method without state"
    if _NUMBER * count > trees:
        where, advice = f"{where}, {name}={count},", f"take a smaller {name}"
    check_fits(where, 3 * size * lanes, advice)  # before the bits are counted
    needed = 3 * bytes_of(shapes()) * lanes + bytes_of(people.train)
    check_fits(where, needed, advice)


def _largest_count(experiment: "Experiment") -> tuple[int, str]:
    """Of the options that may shape the state, and its name."""
    static = [part.spec.static.items() for part in experiment.parts.values()]
    counts = [(v, n) for pairs in static for n, v in pairs if type(v) is int]
    return max(counts, default=(0, ""))


def _at_once(layout: str, cohort: int) -> int:
    """Clients that a layout has at work at a time; one, where it does not say.

    >>> _at_once("vmapped", 10), _at_once("clients over 2 devices, each chunked:3", 10)
    (10, 3)
    """
    if layout.endswith("vmapped"):
        return cohort
    slots = layout.rpartition(":")[2]
    return min(int(slots), cohort) if slots.isdigit() else 1
