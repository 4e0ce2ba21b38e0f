"""A hash of what an object is made of: functions by their code, modules by fields.

It is the same in every process. An object that tells nothing of its contents has
another hash every time, so that nobody takes it for one that was seen before.
"""

import dataclasses
import dis
import enum
import functools
import hashlib
import sys
import sysconfig
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_mos.tree import fingerprint

_PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType)
_SHOWN = (
    *(*_PLAIN, np.dtype, enum.Enum, Path, range, slice),
    *(jax.Device, jax.sharding.Mesh, jax.ShapeDtypeStruct),
)
_HERE = str(Path(__file__).parent)
_LIBRARIES = (_HERE, *{sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib")})
Seen = dict[int, tuple[int, Any]]  # id -> number, and the object, which must live on


def contents(value: Any) -> str:
    """The hash of an object with all that it holds, refers to and was made from.

    >>> def power(n):
    ...     return lambda x: x**n
    >>> contents(power(2)) == contents(power(2))
    True
    >>> contents(power(2)) == contents(power(3))
    False
    """
    total = hashlib.sha256()
    for text in _texts(value, {}):
        total.update(f"{len(text)} {text}".encode())
    return total.hexdigest()[:16]


def _texts(value: Any, seen: Seen) -> Iterator[str]:
    """An object as texts, part by part."""
    if isinstance(value, _SHOWN):
        yield f"{type(value).__name__} {value!r}"
        return
    if id(value) in seen:
        yield f"again {seen[id(value)][0]}"
        return
    seen[id(value)] = len(seen), value
    if name := _library_name(value):
        yield name
        return
    inside = _inside(value)
    parts = [uuid.uuid4().hex] if inside is None else [*inside]
    yield f"{type(value).__qualname__} of {len(parts)}"
    for part in parts:
        yield from _texts(part, seen)


def _inside(value: Any) -> Iterable[Any] | None:
    """What an object is made of; None: it does not tell."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return [fingerprint(value)]
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_consts, value.co_names, value.co_flags]
    if isinstance(value, types.CellType):
        return _held(value)
    if isinstance(value, types.FunctionType):
        made = [value.__code__, value.__defaults__, value.__kwdefaults__]
        return [*made, value.__closure__, _globals_of(value)]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, type):
        return [value.__qualname__, _of_class(value)]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return [type(value), {n: getattr(value, n, None) for n in names}]
    if hasattr(value, "__wrapped__"):  # jitted, or cached
        return [value.__wrapped__]
    return [type(value), vars(value)] if hasattr(value, "__dict__") else None


def _held(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing yet
        return []


def _of_class(made: type) -> dict[str, Any]:
    """What a class defines by itself, and its bases."""
    kinds = (types.FunctionType, staticmethod, classmethod, property, *_PLAIN)
    own = {n: v for n, v in vars(made).items() if isinstance(v, kinds)}
    named = {n: v for n, v in own.items() if n not in ("__doc__", "__firstlineno__")}
    return {"bases": made.__bases__, **named}


def _globals_of(function: types.FunctionType) -> dict[str, Any]:
    """The globals that a function of the user's reads, by name."""
    if _is_library(function.__module__):
        return {}
    names = sorted(_read_by(function.__code__))
    known = function.__globals__
    return {n: known[n] for n in names if n in known}


def _read_by(code: types.CodeType) -> set[str]:
    steps = dis.get_instructions(code)
    found = {step.argval for step in steps if step.opname == "LOAD_GLOBAL"}
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return found.union(*map(_read_by, inner))


def _library_name(value: Any) -> str | None:
    """Where a module, or what a library has by name, is found; None: elsewhere."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value and _is_library(module) else None


def _is_library(module: str | None) -> bool:
    """Whether a module was installed, and is what its version says."""
    if module is None or module == "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:  # part of Python itself, or made on the fly
        return module.partition(".")[0] in sys.stdlib_module_names
    # An environment may see the packages of another.
    shared = {"site-packages", "dist-packages"}.intersection(Path(file).parts)
    return bool(shared) or str(file).startswith(_LIBRARIES)
