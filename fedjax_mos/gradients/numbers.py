"""An experiment's numbers by name, for what differentiates or tunes them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fedjax_mos import options
from fedjax_mos.experiment import Experiment
from fedjax_mos.hyperparameters import GLOSSARY, check_hp
from fedjax_mos.problem import Problem
from fedjax_mos.types import Hp, Key, PyTree, RoundState

Wrt = Sequence[str] | Mapping[str, PyTree]
Numbers = dict[str, PyTree]


def with_numbers(experiment: Experiment, wrt: Wrt) -> tuple[Problem, Numbers]:
    """The experiment as a problem whose `start` takes numbers by name, and those.

    `wrt` names the numbers, or maps names to values that replace the experiment's.
    """
    homes = {name: home(experiment, name) for name in wrt}
    if not homes:
        raise ValueError("wrt must name at least one number: got none")
    problem = experiment.build()
    parts, known = experiment.components(), problem.sim.hp

    def nested(numbers: Numbers) -> Hp:
        hp: Hp = {kind: {} for kind in known}
        for name, (kind, option) in homes.items():
            for k, own in known.items():
                # Some samplers are offered a number of the algorithm: they follow it.
                if option in own and (k == kind or option not in parts[k][1]):
                    hp[k][option] = numbers[name]
        return hp

    def start(key: Key, numbers: Numbers | None = None) -> tuple[RoundState, Key]:
        return problem.start(key, None if numbers is None else nested(numbers))

    numbers = {name: known[kind][option] for name, (kind, option) in homes.items()}
    numbers |= dict(wrt) if isinstance(wrt, Mapping) else {}
    check_hp(nested(numbers))
    return problem._replace(start=start), numbers


def home(experiment: Experiment, name: str) -> tuple[str, str]:
    """(kind, option) of a number, or a ValueError that says why it is none."""
    parts = experiment.components()
    fields = {field.name for field in dataclasses.fields(experiment)}
    if name in fields or (
        options.accepts(name, parts) and options.home(name, parts)[1] not in GLOSSARY
    ):
        raise ValueError(
            f"{name} has no derivative: it decides the program's shape or code, or the "
            f"data; sweep it. Numbers are {', '.join(_smooth(parts))}"
        )
    if not options.accepts(name, parts):
        raise ValueError(f"no number {name!r}; there are {', '.join(_smooth(parts))}")
    kind, option = options.home(name, parts)
    if experiment.chosen()[kind][option] is None:
        raise ValueError(f"{name} is off: give it a value in the experiment's options")
    return kind, option


def _smooth(parts: Mapping[str, tuple[str, dict[str, Any]]]) -> list[str]:
    return [
        f"{kind}.{option}"
        for kind, (_, defaults) in parts.items()
        for option in defaults
        if option in GLOSSARY
    ]
