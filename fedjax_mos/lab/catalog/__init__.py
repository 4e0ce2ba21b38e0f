"""Names people type: factories, variants of them, and per-dataset overrides."""

from typing import Any

from fedjax_mos.components import cited, description
from fedjax_mos.data.sources.table import SOURCES
from fedjax_mos.lab.catalog.algorithms import ALGORITHMS
from fedjax_mos.lab.catalog.components import (
    CHANNELS,
    LOSSES,
    MODELS,
    PARTITIONS,
    SAMPLERS,
)
from fedjax_mos.lab.catalog.dataset_defaults import (
    DATASET_DEFAULTS,
    OTHER,
    OTHER_GROUPED,
    DatasetDefaults,
)
from fedjax_mos.lab.catalog.entry import Entry, check_name

__all__ = [
    "ALGORITHMS",
    "CHANNELS",
    "DATASET_DEFAULTS",
    "LOSSES",
    "MODELS",
    "OTHER",
    "OTHER_GROUPED",
    "PARTITIONS",
    "SAMPLERS",
    "DatasetDefaults",
    "Entry",
    "check_name",
    "citations",
    "listing",
]


def listing() -> dict[str, list[dict[str, Any]]]:
    """Everything there is, for `fedjax-mos list`."""
    tables = {
        "algorithms": ALGORITHMS,
        "samplers": SAMPLERS,
        "channels": CHANNELS,
        "partitions": PARTITIONS,
        "models": MODELS,
    }
    found = {
        kind: [_row(name, entry) for name, entry in table.items()]
        for kind, table in tables.items()
    }
    found["losses"] = [
        {"name": name, "description": description(loss)}
        for name, loss in LOSSES.items()
    ]
    found["datasets"] = [
        {"name": name, "description": source.description, "cite": list(source.cites)}
        for name, source in SOURCES.items()
    ]
    return found


_PLAIN = (bool, int, float, str, tuple, type(None))  # what `list` shows in full


def _row(name: str, entry: Entry) -> dict[str, Any]:
    links = {"uplink": entry.uplink, "downlink": entry.downlink}
    changed = ", ".join(f"{n}={v}" for n, v in entry.options.items())
    behind = [n for n in links.values() if n != "identity"]
    variant = [f"with {changed}"] * bool(changed)
    variant += [f"behind the channels {' and '.join(behind)}"] * bool(behind)
    told = description(entry.factory)
    return {
        "name": name,
        "description": " ".join([told, *(f"Here {words}." for words in variant)]),
        "options": {
            n: v if type(v) in _PLAIN else "..."
            for n, v in entry.spec().options.items()
        },
        "tuned": entry.tuned,
        "channels": {kind: n for kind, n in links.items() if n != "identity"},
        "cite": citations(entry),
    }


def citations(entry: Entry) -> list[str]:
    """Keys of what to cite, the channels of a recipe included."""
    parts = [entry, *(CHANNELS[name] for name in (entry.uplink, entry.downlink))]
    return list(dict.fromkeys(key for part in parts for key in cited(part.factory)))
