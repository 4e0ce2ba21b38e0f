"""One uniform way to set any option of any component: `name=value`."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


def parse(settings: Iterable[str], flag: str = "--set") -> dict[str, str]:
    """`["lr=0.1", "partition.alpha=0.3"]` as a dictionary, values still text."""
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name or not value:
            raise ValueError(f"{flag} takes name=value: got {setting!r}")
        out[name] = value
    return out


def place(
    options: Mapping[str, Any], components: Mapping[str, tuple[str, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Each component's own options, with `options` filled in and converted.

    `components` maps a kind to (name, defaults). An option is called by its bare name
    where that is unambiguous, else as `kind.option` or `name.option`.

    >>> parts = {"algorithm": ("fedavg", {"lr": 0.1}), "partition": ("iid", {})}
    >>> place({"lr": "0.5"}, parts)
    {'algorithm': {'lr': 0.5}, 'partition': {}}
    """
    placed = {kind: dict(defaults) for kind, (_, defaults) in components.items()}
    for name, value in options.items():
        kind, option = home(name, components)
        default = components[kind][1][option]
        placed[kind][option] = _convert(name, value, default)
    return placed


def home(
    name: str, components: Mapping[str, tuple[str, dict[str, Any]]]
) -> tuple[str, str]:
    """(kind, option) that `name` means, or a ValueError that lists what there is."""
    homes = _homes(name, components)
    if not homes:
        known = [
            f"{kind}.{option}"
            for kind, (_, defaults) in components.items()
            for option in defaults
        ]
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(f"no option {name!r}{hint}; there are {', '.join(known)}")
    if len(homes) > 1:
        choices = " or ".join(f"{kind}.{option}" for kind, option in homes)
        raise ValueError(f"option {name!r} is ambiguous: say {choices}")
    return homes[0]


def accepts(name: str, components: Mapping[str, tuple[str, dict[str, Any]]]) -> bool:
    """Whether some component has the option `name`."""
    return bool(_homes(name, components))


def _homes(
    name: str, components: Mapping[str, tuple[str, dict[str, Any]]]
) -> list[tuple[str, str]]:
    prefix, _, option = name.rpartition(".")
    return [
        (kind, option)
        for kind, (called, defaults) in components.items()
        if option in defaults and prefix in ("", kind, called)
    ]


def _convert(name: str, value: Any, default: Any) -> Any:
    """`value` in the type of the default; None stands for a float that is off."""
    try:
        if isinstance(default, bool):
            return _boolean(value)
        if isinstance(default, float):
            return float(value)
        if isinstance(default, int):
            return int(value)
        if isinstance(default, tuple):
            items = value.split(",") if isinstance(value, str) else tuple(value)
            return tuple(type(default[0])(item) for item in items)
        if default is None:
            return None if value in (None, "none") else float(value)
        return int(value) if str(value).isdigit() else str(value)
    except (TypeError, ValueError):
        kind = "float or 'none'" if default is None else type(default).__name__
        raise ValueError(
            f"option {name} must be of type {kind}: got {value!r}"
        ) from None


def _boolean(value: Any) -> bool:
    words = {"true": True, "1": True, "false": False, "0": False}
    if str(value).lower() not in words:
        raise ValueError
    return words[str(value).lower()]
