"""The components of an experiment: names and objects, resolved once."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from fedjax_mos.client.tools import local_work
from fedjax_mos.components import Spec, constant, name_of, spec
from fedjax_mos.data.partition_files import PREFIX, stored
from fedjax_mos.data.sources.dataset import Dataset
from fedjax_mos.data.sources.named import maker_of
from fedjax_mos.engine.hyperparameters import decaying
from fedjax_mos.lab import catalog, options
from fedjax_mos.lab.advice import advised

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

# Components whose floats are leaves of the state; those of others shape data and model.
TRACED = (
    "algorithm",
    "sampler",
    "uplink",
    "downlink",
    "broadcast",
    "local",
    "decay",
)
_TABLES: dict[str, Mapping[str, catalog.Entry]] = {
    "algorithm": catalog.ALGORITHMS,
    "sampler": catalog.SAMPLERS,
    "uplink": catalog.CHANNELS,
    "downlink": catalog.CHANNELS,
    "broadcast": catalog.CHANNELS,
    "partition": catalog.PARTITIONS,
    "model": catalog.MODELS,
}


class Part(NamedTuple):
    """One component of an experiment."""

    name: str  # the catalog's, or the object's own
    spec: Spec
    own: bool = False  # given as an object, not by name


Parts = dict[str, Part]


def parts_of(experiment: "Experiment") -> Parts:
    """Kind -> component, with the experiment's options put in."""
    found = default_parts(experiment)
    return options.place(advised(experiment, found["sampler"]), found)


def default_parts(experiment: "Experiment") -> Parts:
    """Kind -> component, as it is without the experiment's options."""
    one, usual = experiment, experiment.dataset_defaults
    entry = catalog.Entry(lambda: None)
    if isinstance(one.algorithm, str):
        catalog.check_name("algorithm", catalog.ALGORITHMS, one.algorithm)
        entry = catalog.ALGORITHMS[one.algorithm]
    chosen = {
        "algorithm": one.algorithm,
        "sampler": entry.sampler or one.sampler,
        "uplink": entry.uplink if one.uplink is None else one.uplink,
        "downlink": entry.downlink if one.downlink is None else one.downlink,
        "broadcast": "identity" if one.broadcast is None else one.broadcast,
        "partition": _partition(one),
        "model": usual.model if one.model is None else one.model,
    }
    found = {
        kind: part_of(kind, value, one.dataset_name) for kind, value in chosen.items()
    }
    found["dataset"] = _dataset(one.dataset)
    found["local"] = Part("local", spec(local_work))
    found["decay"] = Part("decay", spec(decaying))
    return found


def _partition(experiment: "Experiment") -> Any:
    """How the data are divided: as said, as they are, or as fits the data set."""
    if experiment.partition is not None:
        return experiment.partition
    divided = not isinstance(experiment.dataset, str | Dataset)
    return None if divided else experiment.dataset_defaults.partition


def part_of(kind: str, value: Any, dataset: str) -> Part:
    """A component by name (with its options on `dataset`), as a Spec or an object."""
    if kind == "partition" and isinstance(value, str) and value.startswith(PREFIX):
        return Part(value, spec(stored, path=value.removeprefix(PREFIX)))
    if isinstance(value, str):
        catalog.check_name(kind, _TABLES[kind], value)
        return Part(value, _TABLES[kind][value].spec(dataset))
    if value is None:
        return Part("as given", constant(None))
    if isinstance(value, Spec):
        return Part(value.name, value, own=True)
    if _is_factory(kind, value):
        return Part(name_of(value), spec(value), own=True)
    return Part(type(value).__name__, constant(value), own=True)


def _is_factory(kind: str, value: Any) -> bool:
    """Whether an object is a function that makes the component.

    A model that can be called is not; an algorithm is always made.
    """
    if kind == "algorithm" and not callable(value):
        raise ValueError(
            f"algorithm must be a name, a factory or fm.spec of one: got {value!r}"
        )
    if kind == "algorithm" and (extra := _handed_in(value)[1:]):
        raise ValueError(
            f"algorithm {name_of(value)} is handed the local work alone, its options "
            f"come behind a *, as in def method(local, *, lr=0.1): got {extra[0]!r} too"
        )
    made_by = inspect.isfunction(value) or isinstance(value, partial)
    return made_by or inspect.ismethod(value) or kind == "algorithm"


def _handed_in(factory: Any) -> list[str]:
    """The arguments that a factory wants by position."""
    every = inspect.signature(factory).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in every if p.kind in kinds and p.default is p.empty]


def _dataset(value: Any) -> Part:
    if not isinstance(value, str):
        return Part(type(value).__name__, constant(value), own=True)
    maker = maker_of(value)
    return Part(value, constant(value) if maker is None else spec(maker))
