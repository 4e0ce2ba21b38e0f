"""What a compiled program depends on, and what it does not."""

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_mos.components import Spec
from fedjax_mos.lab.folders import is_object
from fedjax_mos.lab.parts import TRACED
from fedjax_mos.types import Hp, PyTree, Simulation

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

# Fields that are data of a program, or decide how often it is called.
_OUTSIDE = ("seed", "rounds", "eval_every", "stop_at", "options")


def structure(experiment: "Experiment") -> Any:
    """All that the program depends on: neither seed nor leaves nor number of rounds.

    Objects are told apart by identity: compare structures of living experiments only.
    """
    parts = experiment.parts.items()
    made = tuple((k, _of_spec(part.spec, k in TRACED)) for k, part in parts)
    names = [n for n in vars(experiment) if n not in experiment.parts]
    fields = [(n, _token(getattr(experiment, n))) for n in sorted(names)]
    return (made, *((n, token) for n, token in fields if n not in (*_OUTSIDE, "parts")))


def configuration(experiment: "Experiment") -> Any:
    """The structure and every number: what runs of one seed that are alike share."""
    hp = jax.tree.leaves([part.spec.hp for part in experiment.parts.values()])
    return structure(experiment), tuple(np.asarray(leaf).tobytes() for leaf in hp)


def model_structure(experiment: "Experiment") -> Any:
    """All that the experiment's initial models depend on, besides data and seed."""
    part = experiment.parts["model"]
    if part.own:
        return part.name, _of_spec(part.spec, traced=False)
    return part.name, repr(part.spec.static), repr(part.spec.hp)


# What a program depends on through the shapes of data and `Population.token` only.
_DATA = ("dataset", "partition")
_DATA_FIELDS = (*_DATA, "data_dir", "clients", "data_seed", "held_out", "importance")


def data_structure(experiment: "Experiment") -> Any:
    """All that the experiment's data depend on, as far as no file has changed."""
    made = [_of_spec(experiment.parts[kind].spec, traced=False) for kind in _DATA]
    return (*made, *(_token(getattr(experiment, n)) for n in _DATA_FIELDS))


def identity(experiment: "Experiment", *more: Any) -> str | None:
    """The structure as a text that means the same in every process.

    Data are no part of it but for `more`. None if the experiment holds other objects,
    whose contents no text tells.
    """
    parts = {k: part for k, part in experiment.parts.items() if k not in _DATA}
    static = [part.spec.static for part in parts.values()]
    if {*experiment.own} - {*_DATA} or any(map(is_object, static)):
        return None
    made = [
        (kind, part.name, part.spec.static, _shapes(part.spec, kind in TRACED))
        for kind, part in parts.items()
    ]
    outside = (*_OUTSIDE, *_DATA_FIELDS, "parts")
    fields = {n: v for n, v in vars(experiment).items() if n not in outside}
    return repr((made, fields, more))


def hp_of(experiment: "Experiment", sim: Simulation) -> Hp:
    """The experiment's value of every leaf of `sim.hp`, as arrays of one type."""

    def own(value: PyTree, default: PyTree) -> PyTree:
        # One number for a tree of them (a factor per tensor) is each one's.
        same: Any = jax.tree.structure(value)
        if same != jax.tree.structure(default):
            value = jax.tree.map(lambda _: value, default)
        return jax.tree.map(as_array, value)

    return {
        kind: {
            name: _nested(experiment.parts[kind].spec.hp[name], default, own)
            for name, default in leaves.items()
        }
        for kind, leaves in sim.hp.items()
    }


def as_array(value: Any) -> Any:
    """A number as it enters a program: never weakly typed, which would compile anew."""
    if isinstance(value, jax.Array):
        return value
    return np.asarray(value, jax.dtypes.canonicalize_dtype(float))


def _nested(value: Any, default: Any, own: Any) -> Any:
    if isinstance(default, dict) and isinstance(value, dict):
        return {n: _nested(value[n], inner, own) for n, inner in default.items()}
    return own(value, default)


def _of_spec(made: Spec, traced: bool) -> Any:
    """A component without its leaves (with them, where they shape data or model)."""
    fixed = {n: _token(v) for n, v in made.static.items()}
    return (_token(made.factory), repr(fixed), repr(_shapes(made, traced)))


def _shapes(made: Spec, traced: bool) -> Any:
    return jax.tree.map(np.shape, made.hp) if traced else made.hp


def _token(value: Any) -> Any:
    """What tells a static value from another: an object is itself."""
    if isinstance(value, Spec):
        return repr(_of_spec(value, traced=True))
    if isinstance(value, partial):
        return (_token(value.func), *map(_token, value.args))
    plain = type(value) in (bool, int, float, str, tuple, list, type(None))
    return repr(value) if plain else id(value)
