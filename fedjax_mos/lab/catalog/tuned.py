"""Numbers of methods that a search with one budget for all of them found.

tuned.toml has a table per data set and method, as `fedjax-mos search --all` writes it:
they replace the factory's defaults on that data set (docs/tuned.md).
"""

import tomllib
from collections.abc import Mapping
from importlib.resources import files

from fedjax_mos.lab.catalog.entry import Entry


def with_tuned(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries, each with its numbers by data set."""
    found = tomllib.loads(files(__package__).joinpath("tuned.toml").read_text())
    return {
        name: entry._replace(
            tuned={data: table[name] for data, table in found.items() if name in table}
        )
        for name, entry in entries.items()
    }
