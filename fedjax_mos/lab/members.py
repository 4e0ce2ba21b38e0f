"""The members of a comparison by the names that people type."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from fedjax_mos.lab import catalog, options
from fedjax_mos.lab.common_lr import common_lr
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.parts import default_parts
from fedjax_mos.lab.setting import Setting
from fedjax_mos.lab.structure import configuration


def members_of(
    setting: Setting,
    names: Iterable[str],
    given: Mapping[str, Any],
    *,
    sampler: str = "ucs",
    seed: int = 0,
) -> dict[str, Experiment]:
    """Members by name that share a setting: ALGORITHM[/SAMPLER][:OPTION=VALUE,...].

    An option that is given apart goes to every member that has it; a member's own go
    before it. On data for which no method is tuned, members without an lr of their own
    all have the data set's: defaults of papers differ by ten times.
    """
    catalog.check_name("sampler", catalog.SAMPLERS, sampler)
    shared = {f.name: getattr(setting, f.name) for f in dataclasses.fields(setting)}
    members, private = {}, {}
    for name in names:
        method, colon, words = name.partition(":")
        if "," in method:
            raise ValueError(f"members are separated by spaces: got {name!r}")
        algorithm, slash, own = method.partition("/")
        if not algorithm or slash and not own or colon and not words:
            raise ValueError(
                f"a member must be ALGORITHM[/SAMPLER][:OPTION=VALUE,...]: got {name!r}"
            )
        title = f"{algorithm}/{own or sampler}{colon}{words}"
        if title in members:
            raise ValueError(f"the member {title} is given twice")
        members[title] = Experiment(
            **shared, algorithm=algorithm, sampler=own or sampler, seed=seed
        )
        private[title] = options.parse(words.split(","), title) if words else {}
    if not members:
        raise ValueError("algorithms must name at least one member: got none")
    known = {name: default_parts(member) for name, member in members.items()}
    for option in given:
        if not any(options.accepts(option, parts) for parts in known.values()):
            options.home(option, next(iter(known.values())))  # raises
    found: dict[str, Experiment] = {}
    first: dict[Any, str] = {}
    for name, member in members.items():
        mine = {k: v for k, v in given.items() if options.accepts(k, known[name])}
        shown = options.replaced(mine, private[name], known[name])
        shown = common_lr(member, shown) | shown
        found[name] = dataclasses.replace(member, options=shown)
        same = first.setdefault(configuration(found[name]), name)
        if same != name:
            raise ValueError(f"the members {same} and {name} are the same")
    return found
