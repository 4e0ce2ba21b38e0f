"""What an experiment would hold in memory, from shapes alone."""

from typing import TYPE_CHECKING

import jax

from fedjax_mos.engine.ahead import check_sampler
from fedjax_mos.engine.working_set import rounds_at_once
from fedjax_mos.lab.assemble import functions_of
from fedjax_mos.lab.memory_checks import (
    COPIES,
    TREES,
    at_once,
    batch_bytes,
    rows_on_disk,
    run_memory,
)
from fedjax_mos.lab.population import Population, population_of
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.simulation import most_steps
from fedjax_mos.memory import in_words
from fedjax_mos.tree import bytes_of
from fedjax_mos.types import RoundState, Simulation

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

_EVALUATED = 200  # examples at a time


def describe(experiment: "Experiment", seeds: int | None = None) -> Printed:
    """The memory that a run would take, before any of its state is allocated.

    Data are loaded, which shapes depend on. A note says where rows would be kept, or
    why the run would be refused.
    """
    lanes, people = seeds or 1, population_of(experiment)
    made = functions_of(experiment, people, lanes, jax.default_backend())
    state, _ = jax.eval_shape(made.start, people.train, jax.random.key(0), made.sim.hp)
    notes: list[str] = []
    try:
        shapes = made.network.shapes
        on_disk = rows_on_disk(experiment, people, shapes, lambda: state, lanes)
    except ValueError as error:
        on_disk, notes = False, [f"refused: {error}"]
    model, rows = bytes_of(made.network.shapes), bytes_of(state.clients)
    slots = at_once(made.sim.backend.name, experiment.cohort)
    steps = most_steps(experiment, people)
    inputs = batch_bytes(experiment, people, steps)
    held = _held(made.sim, people, state) if on_disk else rows
    parts = {
        "data": (_data(people), False),
        "clients' rows": (held, True),
        "the rest of the state": (bytes_of(state) - rows, True),
        "copies while it is placed": (
            (COPIES - 1) * (bytes_of(state) - rows + held),
            True,
        ),
        "clients at work": (slots * (TREES * model + inputs), True),
        "an evaluation": (model + _EVALUATED * inputs // experiment.batch_size, True),
    }
    if on_disk:
        notes.append(
            f"clients' rows on disk: {in_words(rows)}, with checkpoints up to three "
            "times as much"
        )
    each = {n: size for n, (size, _) in parts.items()}
    total = {
        n: size * (lanes if per_lane else 1) for n, (size, per_lane) in parts.items()
    }
    each["in all"], total["in all"] = sum(each.values()), sum(total.values())
    if total["in all"] > run_memory() and not notes:
        notes.append("this is more than the machine has, and may or may not fit")
    column = f"{lanes:,} seeds" if seeds else "memory"
    table = [
        {"what": n}
        | ({"one seed": in_words(each[n])} if seeds else {})
        | {column: in_words(total[n])}
        for n in total
    ]
    table.append({"what": "the machine", column: in_words(run_memory())})
    return Printed(table, notes=notes)


def _data(people: Population) -> int:
    """Bytes of all stores; what two of them share counts once."""
    leaves = jax.tree.leaves((people.train, people.stores))
    return bytes_of({id(leaf): leaf for leaf in leaves})


def _held(sim: Simulation, people: Population, state: RoundState) -> int:
    """Bytes of the rows of a working set, and of the lists of where all are."""
    clients = people.clients
    row = bytes_of(state.clients) // clients
    looks, slots = check_sampler(sim, people.train, state, people.generated is not None)
    width = min(clients, slots * rounds_at_once(looks, slots * row))
    return width * row + 3 * 4 * clients
