"""Names people type: factories, their default numbers and the papers they come from."""

from typing import Any

from fedjax_mos.catalog.algorithms import ALGORITHMS
from fedjax_mos.catalog.components import (
    CHANNELS,
    DATASETS,
    LOCAL,
    MODELS,
    PARTITIONS,
    SAMPLERS,
    SCHEDULE,
)
from fedjax_mos.catalog.entry import Entry, lookup
from fedjax_mos.catalog.habits import HABITS, OTHER, Habit

__all__ = [
    "ALGORITHMS",
    "CHANNELS",
    "DATASETS",
    "HABITS",
    "LOCAL",
    "MODELS",
    "OTHER",
    "PARTITIONS",
    "SAMPLERS",
    "SCHEDULE",
    "Entry",
    "Habit",
    "listing",
    "lookup",
]


def listing() -> dict[str, list[dict[str, Any]]]:
    """Everything there is, for `fedjax-mos list`."""
    tables = {
        "algorithms": ALGORITHMS,
        "samplers": SAMPLERS,
        "channels": CHANNELS,
        "partitions": PARTITIONS,
        "datasets": DATASETS,
        "models": MODELS,
        "local": {"local": LOCAL, "schedule": SCHEDULE},
    }
    return {
        kind: [
            {
                "name": name,
                "hyperparameters": entry.options,
                "tuned": entry.tuned,
                "channels": {"uplink": entry.uplink, "downlink": entry.downlink}
                if table is ALGORITHMS
                else {},
                "reference": entry.reference,
            }
            for name, entry in table.items()
        ]
        for kind, table in tables.items()
    }
