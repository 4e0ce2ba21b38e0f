"""One name that people type."""

import difflib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """One name: what it makes, its options with their defaults, and its source."""

    factory: Callable[..., Any]
    options: dict[str, Any]
    reference: str
    tuned: dict[str, dict[str, Any]] = {}  # read only
    # For algorithms: the channels that make a recipe, and the only sensible sampler.
    uplink: str = "identity"
    downlink: str = "identity"
    sampler: str | None = None
    only_for: tuple[str, ...] = ()  # for samplers: the algorithms that they belong to

    def defaults(self, dataset: str) -> dict[str, Any]:
        """The options on `dataset`."""
        return self.options | self.tuned.get(dataset, {})


def lookup(kind: str, table: Mapping[str, Entry], name: str) -> Entry:
    """The entry called `name`, or a ValueError that lists the names there are."""
    if name in table:
        return table[name]
    close = difflib.get_close_matches(name, table, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    raise ValueError(f"{kind} must be one of {', '.join(table)}: got {name!r}{hint}")
