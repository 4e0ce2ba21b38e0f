"""Results on disk: what a folder says of itself, and everything read back."""

import dataclasses
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from flax import traverse_util

from fedjax_mos.contents import contents
from fedjax_mos.data.sources.dataset import Dataset
from fedjax_mos.lab.files import whole
from fedjax_mos.schedule import Schedule
from fedjax_mos.target import DEFAULT, products, traced_for
from fedjax_mos.tree import fingerprint
from fedjax_mos.types import FederatedData

if TYPE_CHECKING:
    from fedjax_mos.lab.compare import Comparison
    from fedjax_mos.lab.experiment import Experiment
    from fedjax_mos.lab.hypergradients.tuned import Tuned
    from fedjax_mos.lab.result import Result
    from fedjax_mos.lab.searches.found import Search
    from fedjax_mos.lab.sweeps.cube import Cube

CONFIG = "config.json"
_DATA = (Dataset, FederatedData)
# What `as_json` writes, and `from_json` brings back.
_PLAIN = (bool, int, float, str, type(None))
_WRITTEN = (Schedule, np.ndarray, np.generic, jax.Array, Path, *_PLAIN)
# What reading a file that somebody has changed may raise.
DAMAGED = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError),
    *(zipfile.BadZipFile, zlib.error),
)


def config(experiment: "Experiment | None", kind: str, **more: Any) -> dict[str, Any]:
    """All that is needed to repeat an experiment, as far as a file can say it."""
    if experiment is None:  # it was read, and had held objects
        return {"kind": kind, **more, "own": ["objects of an earlier process"]}
    fields = {
        field.name: as_json(getattr(experiment, field.name))
        for field in dataclasses.fields(experiment)
    }
    own = experiment.own
    return {
        "kind": kind,
        "experiment": fields,
        **more,
        "own": list(own),
        "repeatable": "from this file"
        if not own
        else f"only with the objects given in Python: {', '.join(own)}",
        "components": {k: part.name for k, part in experiment.parts.items()},
        "options": {
            k: {n: as_json(v) for n, v in part.spec.options.items()}
            for k, part in experiment.parts.items()
        },
        "versions": {
            name: version(name) for name in ("fedjax_mos", "jax", "flax", "optax")
        },
        "platform": jax.default_backend(),
        # Of products, by the experiment or else by JAX's own setting.
        "precision": traced_for("", products, experiment.precision)() or DEFAULT,
    }


def experiment_of(stored: Mapping[str, Any]) -> "Experiment | None":
    """The experiment that a configuration describes; None if it held objects."""
    from fedjax_mos.lab.experiment import Experiment

    if stored["own"]:
        return None
    fields = {n: from_json(v) for n, v in stored["experiment"].items()}
    if fields["data_dir"] is not None:
        fields["data_dir"] = Path(fields["data_dir"])
    return Experiment(**fields)


def as_json(value: Any) -> Any:
    """A value as JSON has it; an object only by its name and a hash."""
    if isinstance(value, Schedule):
        return {"schedule": np.asarray(value.values).tolist()}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return {"array": np.asarray(value).tolist()}
    if isinstance(value, Mapping):
        return {str(name): as_json(v) for name, v in value.items()}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return [as_json(v) for v in value]
    if isinstance(value, _PLAIN):
        return value
    inner = getattr(value, "factory", value)
    named = {"object": getattr(inner, "__name__", type(value).__name__)}
    # Data have a hash of their own in every folder.
    return named if isinstance(value, _DATA) else named | {"hash": contents(value)}


def is_object(value: Any) -> bool:
    """Whether a value is, or holds, something that JSON only names."""
    if isinstance(value, Mapping):
        return any(map(is_object, value.values()))
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return any(map(is_object, value))
    return not isinstance(value, _WRITTEN)


def from_json(value: Any) -> Any:
    """What `as_json` wrote."""
    if isinstance(value, Mapping):
        if set(value) == {"schedule"}:
            return Schedule(np.array(value["schedule"]))
        if set(value) == {"array"}:
            return np.array(value["array"])
        return {name: from_json(v) for name, v in value.items()}
    return value


def data_hash(experiment: "Experiment | None") -> str | None:
    """A hash of all data of an experiment that is still at hand."""
    from fedjax_mos.lab.population import population_of

    return None if experiment is None else fingerprint(population_of(experiment).stores)


def write_json(path: Path, value: Any) -> None:
    """Readable JSON, whole or not at all; what is no finite number becomes null."""
    text = json.dumps(_finite(value), indent=2, default=str, allow_nan=False)
    with whole(path) as partial:
        partial.write_text(text + "\n")


def write_winner(folder: Path, experiment: "Experiment | None") -> None:
    """winner.json, what `run --config` takes to train what a study has chosen."""
    if experiment is not None:
        data = data_hash(experiment)
        stored = config(experiment, "run", seeds=None, data=data)
        write_json(folder / "winner.json", stored)


def _finite(value: Any) -> Any:
    """JSON knows no NaN and no infinity."""
    if isinstance(value, Mapping):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    number = isinstance(value, float | np.floating)
    return None if number and not math.isfinite(value) else value


def write_arrays(path: Path, tree: Any) -> None:
    """A tree of arrays as .npz, names joined by "/".

    Types that NumPy does not have (bfloat16) are written as float32: the same numbers.
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path({"params": jax.device_get(tree)})
    flat = {jax.tree_util.keystr(p, simple=True, separator="/"): v for p, v in leaves}
    plain = {
        name: value.astype(np.float32) if value.dtype.kind == "V" else value
        for name, value in ((n, np.asarray(v)) for n, v in flat.items())
    }
    with whole(path) as partial:
        np.savez(partial, allow_pickle=False, **plain)


def read_arrays(path: Path) -> Any:
    """What `write_arrays` wrote, as nested dictionaries."""
    # NumPy leaves a file open that is no archive.
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
        flat = {name: file[name] for name in file.files}
    return traverse_util.unflatten_dict(flat, sep="/").get("params", {})


def read_json(path: Path) -> Any:
    """What `write_json` wrote."""
    try:
        return json.loads(path.read_text())
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None


def read(folder: Path | str) -> "Result | Comparison | Cube | Search | Tuned":
    """The Result, Comparison, Cube, Search or Tuned that a folder holds.

    An experiment that held objects given in Python does not come back: it is None.
    """
    from fedjax_mos.lab.compare import Comparison
    from fedjax_mos.lab.hypergradients.tuned import Tuned
    from fedjax_mos.lab.result import Result
    from fedjax_mos.lab.searches.found import Search
    from fedjax_mos.lab.sweeps.cube import Cube

    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} holds no results of fedjax_mos: it is no folder")
    readers: dict[str, Any] = {
        "run": Result,
        "comparison": Comparison,
        "sweep": Cube,
        "search": Search,
        "tuning": Tuned,
    }
    try:
        path = folder / CONFIG
        # A sweep that was stopped has only its plan.
        stored = read_json(path if path.exists() else folder / "plan.json")
        kind = stored["kind"] if isinstance(stored, dict) else "none"
        return readers[kind].read(folder)
    except DAMAGED as error:
        raise ValueError(f"{folder} holds no results of fedjax_mos: {error}") from error
