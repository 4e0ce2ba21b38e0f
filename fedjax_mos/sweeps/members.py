"""One configuration of a sweep as an experiment, checked before anything runs."""

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

from fedjax_mos import options
from fedjax_mos.experiment import Experiment

# Static choices by name; the seed is an axis of its own.
FIELDS = {
    name: hint
    for name, hint in get_type_hints(Experiment).items()
    if name not in ("seed", "options")
}


def member(experiment: Experiment, configuration: Mapping[str, Any]) -> Experiment:
    """The experiment with this configuration, or a ValueError."""
    fields = {n: _typed(n, v) for n, v in configuration.items() if n in FIELDS}
    given = {n: v for n, v in configuration.items() if n not in FIELDS}
    parts = dataclasses.replace(experiment, **fields, options={}).components()
    homes: dict[tuple[str, str], str] = {}
    for name in given:
        home = _home(name, parts)
        if home in homes:
            raise ValueError(f"{homes[home]} and {name} are the same option")
        homes[home] = name
    changed: Any = fields | {"options": {**experiment.options, **given}}
    return dataclasses.replace(experiment, **changed)


def value_of(member: Experiment, name: str) -> Any:
    """What `name` is in a member, as a label; None where it has no such option."""
    if name in FIELDS:
        value = getattr(member, name)
    elif options.accepts(name, member.components()):
        kind, option = options.home(name, member.components())
        value = member.chosen()[kind][option]
    else:
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


def _home(name: str, parts: Mapping[str, Any]) -> tuple[str, str]:
    if name == "seed":
        raise ValueError("seed is an axis of every sweep: say how many by seeds=")
    try:
        return options.home(name, parts)
    except ValueError as error:
        if options.accepts(name, parts):
            raise
        message = f"{error}, and the fields {', '.join(FIELDS)}"
        raise ValueError(message) from None


def _typed(name: str, value: Any) -> Any:
    """A field's value in its type; the command line gives text."""
    hint = FIELDS[name]
    if isinstance(value, str) and value.lower() == "none" and isinstance(None, hint):
        return None
    if isinstance(value, str) and not isinstance(value, hint):
        words = {"true": True, "false": False}
        value = int(value) if value.isdigit() else words.get(value.lower(), value)
    if not isinstance(value, hint):
        kind = getattr(hint, "__name__", None) or str(hint)
        raise ValueError(f"{name} must be of type {kind}: got {value!r}")
    return value
