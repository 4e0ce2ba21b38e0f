"""Commands that run nothing: what there is, what to cite, where to get data."""

import json
from typing import Annotated, Any, Literal

import tyro

from fedjax_mos.cli.arguments import (
    Flat,
    Settings,
    all_cores,
    experiment_of,
    starting,
)
from fedjax_mos.lab.setting import Method


def list_components(json_: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """Show every name with its options, their defaults and its paper.

    Examples:
        fedjax-mos list
        fedjax-mos list --json

    Args:
        json_: One JSON object instead of text.
    """
    from fedjax_mos.lab import catalog
    from fedjax_mos.lab.citation import short

    listing = catalog.listing()
    if json_:
        print(json.dumps(listing, indent=2))
        return
    for kind, entries in listing.items():
        print(f"{kind}:")
        for entry in entries:
            lines = [entry["description"], _values(entry.get("options", {}))]
            tuned = entry.get("tuned", {})
            lines += [f"on {name}: {_values(values)}" for name, values in tuned.items()]
            lines += [_values(entry.get("channels", {}))]
            lines += [short(key) for key in entry.get("cite", [])]
            for number, line in enumerate(filter(None, lines)):
                print(f"  {'' if number else entry['name']:<20} {line}")


def cite(method: Annotated[Method, *Flat], settings: Settings = ()) -> None:
    """Print what to cite for an experiment, as BibTeX.

    Examples:
        fedjax-mos cite --algorithm scaffold
        fedjax-mos cite --algorithm fedcams --sampler acs

    Args:
        method: The experiment.
        settings: Any option of any component.
    """
    from fedjax_mos.lab.citation import citation

    print(citation(experiment_of(method, settings)))


def describe(
    method: Annotated[Method, *Flat], settings: Settings = (), seeds: int | None = None
) -> None:
    """Print what an experiment would hold in memory, and whether it would be refused.

    Examples:
        fedjax-mos describe --dataset synthetic --clients 500 --model mlp
        fedjax-mos describe --dataset synthetic_population --clients 1000000

    Args:
        method: The experiment.
        settings: Any option of any component.
        seeds: So many seeds as one program.
    """
    starting(quiet=False)
    experiment = experiment_of(method, settings)
    all_cores()
    print(experiment.describe(seeds).text())


def data(
    action: tyro.conf.Positional[Literal["get"]], name: tyro.conf.Positional[str]
) -> None:
    """Fetch a data set into the cache folder, where later runs find it.

    Examples:
        fedjax-mos data get mnist

    Args:
        action: get.
        name: A data set's name.
    """
    from fedjax_mos.data.sources import fetch

    print(f"{name} is in {fetch.get(name)}")


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
