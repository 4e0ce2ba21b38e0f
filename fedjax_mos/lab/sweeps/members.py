"""One configuration of a sweep as an experiment, checked before anything runs."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from fedjax_mos.components import Spec
from fedjax_mos.lab import options
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.schedule import Schedule
from fedjax_mos.signatures import Option, arguments_of

# Static choices by name; the seed is an axis of its own.
FIELDS = {
    name: Option(name, hint, None)
    for name, hint in get_type_hints(Experiment).items()
    if name not in ("seed", "options", "metrics")
}


def member(experiment: Experiment, configuration: Mapping[str, Any]) -> Experiment:
    """The experiment with this configuration, or a ValueError."""
    fields = {n: _typed(n, v) for n, v in configuration.items() if n in FIELDS}
    given = {n: v for n, v in configuration.items() if n not in FIELDS}
    if "seed" in given:
        raise ValueError("seed is an axis of every sweep: say how many by seeds=")
    base = dataclasses.replace(experiment, **fields)
    try:
        parts = options.place(given, base.parts)
    except options.UnknownOptionError as error:
        message = f"{error}, and the fields {', '.join(FIELDS)}"
        raise ValueError(message) from None
    changed = options.replaced(base.options, given, parts)
    return dataclasses.replace(base, options=changed)


def value_of(member: Experiment, name: str) -> Any:
    """What `name` is in a member, as a label; None where it has no such option."""
    if name in member.parts:
        given = getattr(member, name, None)
        return as_cell(given) if isinstance(given, Spec) else member.parts[name].name
    if name in FIELDS:
        return as_cell(getattr(member, name))
    if not options.accepts(name, member.parts):
        return None
    kind, path = options.home(name, member.parts)
    return as_cell(options.value_at(member.parts[kind].spec, path))


def as_cell(value: Any) -> Any:
    """A value in one cell of a table."""
    if isinstance(value, int | float | str | None):
        return value
    if isinstance(value, Schedule):
        ends = f"{float(value.values[0]):.4g} ... {float(value.values[-1]):.4g}"
        return f"{len(value)} values {ends}"
    if isinstance(value, Spec):
        usual = {n: o.default for n, o in arguments_of(value.factory).items()}
        changed = {n: v for n, v in value.options.items() if v is not usual.get(n)}
        inside = ", ".join(f"{n}={as_cell(v)}" for n, v in changed.items())
        return f"{value.name}({inside})" if inside else value.name
    return getattr(value, "__name__", None) or str(value)


def _typed(name: str, value: Any) -> Any:
    """A field's value in its type; the command line gives text."""
    field = FIELDS[name]
    if isinstance(value, str):
        for kind, read in _READERS.items():
            if kind in field.members and (found := read(value)) is not None:
                return None if found == "none" else found
    plain = [m for m in field.members if m in _READERS or m is str]
    objects = len(plain) < len(field.members)
    whole = isinstance(value, bool) and bool not in plain
    if not objects and (whole or not isinstance(value, tuple(plain))):
        kinds = " or ".join(getattr(m, "__name__", "None") for m in plain)
        raise ValueError(f"{name} must be of type {kinds}: got {value!r}")
    return value


def _read(kind: Any, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return None


_READERS: dict[Any, Any] = {
    type(None): lambda text: "none" if text.lower() == "none" else None,
    bool: lambda text: {"true": True, "false": False}.get(text.lower()),
    int: lambda text: _read(int, text),
    float: lambda text: _read(float, text),
    Path: Path,
}
