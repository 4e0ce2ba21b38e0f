"""From configurations to pieces: runs that share one program, so many at a time."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from fedjax_mos.backends.auto import equal
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.structure import configuration, structure
from fedjax_mos.lab.sweeps.grid import Configuration, check_most
from fedjax_mos.lab.sweeps.members import member, value_of
from fedjax_mos.machine import device_memory
from fedjax_mos.tree import bytes_of
from fedjax_mos.types import RoundState


class Lane(NamedTuple):
    """One run: its place in the cube, and the experiment that would do it alone."""

    label: dict[str, Any]
    experiment: Experiment


class Piece(NamedTuple):
    """Lanes that run at once; all pieces of a group share one program of this width."""

    group: int
    lanes: list[int]  # positions in the list of all lanes
    width: int


def lanes(
    experiment: Experiment,
    configurations: Sequence[Configuration],
    seeds: int,
    independent: bool,
) -> list[Lane]:
    """Every configuration with every seed, checked.

    Configurations share their seeds, unless they are to be `independent`.
    """
    experiment.check_seeds(seeds)
    check_most(len(configurations), seeds)
    members = [member(experiment, c) for c in configurations]
    axes = dict.fromkeys(name for c in configurations for name in c)
    out, seen = [], set()
    for i, one in enumerate(members):
        label = {name: value_of(one, name) for name in axes}
        # A label only abbreviates schedules and objects.
        known = (repr(label), configuration(one))
        if known in seen:
            raise ValueError(f"the configuration {label} is given twice")
        seen.add(known)
        first = experiment.seed + independent * i * seeds
        dataclasses.replace(one, seed=first).check_seeds(seeds)
        for seed in range(first, first + seeds):
            where = {"configuration": i} | label | {"seed": seed}
            out.append(Lane(where, dataclasses.replace(one, seed=seed)))
    return out


def axes_of(lanes: Sequence[Lane]) -> tuple[str, ...]:
    """What the lanes' labels say besides configuration and seed."""
    return tuple(n for n in lanes[0].label if n not in ("configuration", "seed"))


def pieces(lanes: Sequence[Lane], width: int | None) -> list[Piece]:
    """The lanes in groups of one program each, cut into pieces of equal width."""
    if width is not None and width < 1:
        raise ValueError(f"width must be at least 1: got {width}")
    out = []
    for number, group in enumerate(groups_of(lanes)):
        most = fitting(lanes[group[0]].experiment)  # also what only `build` can check
        even = equal(len(group), width) if width else spread_out(len(group), most)
        out += [
            Piece(number, group[start : start + even], even)
            for start in range(0, len(group), even)
        ]
    return out


def groups_of(lanes: Sequence[Lane]) -> list[list[int]]:
    """Positions of the lanes that can share a program, group by group."""
    groups: dict[Any, list[int]] = {}
    for i, lane in enumerate(lanes):
        one = lane.experiment
        same = (structure(one), one.rounds, one.eval_every, one.stop_at)
        groups.setdefault(same, []).append(i)
    return list(groups.values())


def spread_out(count: int, most: int) -> int:
    """The width of equal pieces of about `most`, such that the devices divide it."""
    even = equal(count, most)
    return even + -even % jax.device_count()


def budget() -> int:
    """Bytes that the lanes of a piece may take, by the estimate of `fits`.

    On CPU wide lanes gain nothing and take longer to compile (benchmarks/NOTES.md):
    4 MiB per device, about a core's cache. On an accelerator that does not tell its
    memory 1 GiB.
    """
    return 2**22 * jax.device_count() if jax.default_backend() == "cpu" else 2**30


def fitting(experiment: Experiment) -> int:
    """How many lanes of an experiment fit the budget, or an accelerator's memory.

    There the compiler is asked what one lane needs: a program more to compile, which
    also counts activations.
    """
    made = experiment.build(lanes=jax.device_count())
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    memory = device_memory()
    if memory is None:
        return fits(state, experiment.cohort)
    block, args = made.block(state, key)
    needs = block.lower(*args).compile().memory_analysis()  # type: ignore[attr-defined]
    return jax.device_count() * within(memory, needs, bytes_of(state))


def within(memory: int, needs: Any, state: int) -> int:
    """How many lanes fit a device, by what the compiler says of a block of one lane.

    A lane holds its state twice (the caller's and the block's own) and what the block
    needs; the data are there once. A tenth of the memory is left to others.
    """
    data = needs.argument_size_in_bytes - state
    made = needs.output_size_in_bytes - needs.alias_size_in_bytes
    lane = 2 * state + needs.temp_size_in_bytes + made
    return max(1, (memory * 9 // 10 - data) // lane)


def fits(state: RoundState, cohort: int) -> int:
    """How many lanes fit the budget, by the sizes of state and parameters.

    A lane holds its state twice (before and after a round) and about four trees of
    parameters per client at work. Activations are not counted.
    """
    work = 4 * cohort * bytes_of(state.server.params)
    return max(1, budget() // (2 * bytes_of(state) + work))
