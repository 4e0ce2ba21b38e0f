"""An experiment's hyperparameters by name, for what differentiates or tunes them."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from fedjax_mos.components import Spec, check_hp
from fedjax_mos.lab import options
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.parts import TRACED, Parts
from fedjax_mos.schedule import check_length
from fedjax_mos.types import Hp, Key, PyTree, RoundState

Wrt = str | Sequence[str] | Mapping[str, PyTree]
Named = dict[str, PyTree]  # hyperparameters by name


def with_named(experiment: Experiment, wrt: Wrt | None) -> tuple[Assembled, Named]:
    """The experiment with a `start` that takes hyperparameters by name, and those.

    `wrt` names one or several, or maps names to values that replace the experiment's;
    None: all of the algorithm.
    """
    check_experiment(experiment)
    wrt = default_wrt(experiment) if wrt is None else names_in(wrt)
    homes = {name: home(experiment, name) for name in wrt}
    if not homes:
        raise ValueError("wrt must name at least one number: got none")
    made = experiment.build()
    known = made.sim.hp

    def nested(named: Named) -> Hp:
        hp: Hp = {}
        for name, (kind, path) in homes.items():
            _put(hp, (kind, *path), named[name])
        return hp

    def start(key: Key, named: Named | None = None) -> tuple[RoundState, Key]:
        return made.start(key, None if named is None else nested(named))

    named = {name: _get(known, (kind, *path)) for name, (kind, path) in homes.items()}
    named |= dict(wrt) if isinstance(wrt, Mapping) else {}
    hp = nested(named)
    for kind, leaves in hp.items():
        check_hp(made.sim.specs[kind], leaves, kind)
    check_length(hp, experiment.rounds)
    return made._replace(start=start), named


def names_in(wrt: Wrt) -> Sequence[str] | Mapping[str, PyTree]:
    """One name as a sequence; others as they are."""
    return (wrt,) if isinstance(wrt, str) else wrt


def default_wrt(experiment: Experiment) -> tuple[str, ...]:
    """All floats of the algorithm, by the shortest name that says which."""
    made, parts = experiment.parts["algorithm"].spec, experiment.parts
    names = []
    for path in _leaves(made):
        bare = ".".join(path)
        alone = len([h for h in options.all_options(parts) if h[1] == path]) == 1
        names.append(bare if alone else f"algorithm.{bare}")
    return tuple(names)


def home(experiment: Experiment, name: str) -> options.Home:
    """(kind, path) of a hyperparameter, or a ValueError that says why it is none."""
    parts = experiment.parts
    fields = {field.name for field in dataclasses.fields(experiment)}
    if not options.accepts(name, parts) and name not in fields:
        raise ValueError(f"no number {name!r}; there are {', '.join(_smooth(parts))}")
    if options.accepts(name, parts):
        kind, path = options.home(name, parts)
        if kind in TRACED and path in _leaves(parts[kind].spec):
            return kind, path
        declared = options.option_at(parts[kind].spec, path)
        if kind in TRACED and declared.numeric:
            raise ValueError(
                f"{name} is off: give it a value in the experiment's options"
            )
    raise ValueError(
        f"{name} has no derivative: it decides the program's shape or code, or the "
        f"data; sweep it. Numbers are {', '.join(_smooth(parts))}"
    )


def _leaves(made: Spec) -> list[tuple[str, ...]]:
    """The paths of the leaves of a Spec."""
    found: list[tuple[str, ...]] = []
    for name in made.hp:
        inner = made.static.get(name)
        if isinstance(inner, Spec):
            found += [(name, *path) for path in _leaves(inner)]
        else:
            found.append((name,))
    return found


def _smooth(parts: Parts) -> list[str]:
    return [
        f"{kind}.{'.'.join(path)}"
        for kind in TRACED
        for path in _leaves(parts[kind].spec)
    ]


def _get(tree: Mapping[str, Any], path: Sequence[str]) -> PyTree:
    for name in path:
        tree = tree[name]
    return jax.tree.map(lambda leaf: leaf, tree)


def _put(tree: dict[str, Any], path: Sequence[str], value: PyTree) -> None:
    *above, last = path
    for name in above:
        tree = tree.setdefault(name, {})
    tree[last] = value
