"""A comparison's folder: what it says of itself, claimed at the start and resumed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedjax_mos.engine.checkpoints import differences
from fedjax_mos.folder_lock import refused
from fedjax_mos.lab import folders
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.run_folder import asked, asked_by, is_empty
from fedjax_mos.lab.setting_checks import check_count
from fedjax_mos.lab.structure import data_structure


def claim(
    folder: Path, members: Mapping[str, Experiment], seeds: int, target: float | None
) -> None:
    """Make a folder this comparison's; one of another is refused."""
    known = None if is_empty(folder) else _known(folder)
    if known is not None:
        _check_same(folder, known, members, seeds)
        if known["complete"] and _rounds(known) == _rounds_of(members):
            return
    with refused(folder):
        write_config(folder, members, seeds, target, complete=False)


def _known(folder: Path) -> dict[str, Any]:
    """What a comparison's folder says of itself, or a FileExistsError."""
    path = folder / folders.CONFIG
    try:
        known = folders.read_json(path)
        if known["kind"] != "comparison":
            raise ValueError(f"it is of a {known['kind']}")
        known["complete"], known["seeds"]
        for rounds in _rounds(known).values():
            check_count("rounds", rounds)
        for name in known["members"]:
            asked(known["experiments"][name])
    except folders.DAMAGED as error:
        raise FileExistsError(
            "out must be a new or empty folder, or one of the same comparison: "
            f"{folder} is not ({path}: {error!r})"
        ) from error
    return known


def _check_same(
    folder: Path, known: dict[str, Any], members: Mapping[str, Experiment], seeds: int
) -> None:
    """Refuse another comparison before anything of this one is changed."""
    wanted = f"out must be a folder of the same comparison: {folder} has"
    if known["members"] != list(members):
        raise ValueError(f"{wanted} the members {', '.join(known['members'])}")
    if known["seeds"] != seeds:
        raise ValueError(f"{wanted} {known['seeds']} seeds, not {seeds}")
    for name, member in members.items():
        before = asked(known["experiments"][name])
        if different := differences(before, asked_by(member)):
            raise ValueError(f"{wanted} another {name}: {different}")
    for name, ran in _rounds(known).items():
        if members[name].rounds < ran:
            raise ValueError(
                f"rounds can only be raised: {folder} has {ran}, got "
                f"{members[name].rounds}"
            )


def _rounds(known: dict[str, Any]) -> dict[str, int]:
    stored = known["experiments"].items()
    return {name: one["experiment"]["rounds"] for name, one in stored}


def _rounds_of(members: Mapping[str, Experiment]) -> dict[str, int]:
    return {name: member.rounds for name, member in members.items()}


def write_config(
    folder: Path,
    members: Mapping[str, Experiment | None],
    seeds: int,
    target: float | None,
    complete: bool,
) -> None:
    """Say what is compared on which data, and whether all of it is there."""
    known = {name: one for name, one in members.items() if one is not None}
    apart = {data_structure(one): one for one in known.values()}
    hashes = {which: folders.data_hash(one) for which, one in apart.items()}
    stored = {
        "kind": "comparison",
        "members": list(members),
        "complete": complete,
        "seeds": seeds,
        "target": target,
        "data": {n: hashes[data_structure(one)] for n, one in known.items()},
        "experiments": {n: folders.config(one, "run") for n, one in members.items()},
    }
    folders.write_json(folder / folders.CONFIG, stored)


def is_done(folder: Path, member: Experiment) -> bool:
    """Whether a folder has this very member, complete."""
    try:
        stored = folders.read_json(folder / folders.CONFIG)
        same = stored["experiment"]["rounds"] == member.rounds
        return bool(stored["complete"] and same and asked(stored) == asked_by(member))
    except folders.DAMAGED:
        return False  # who runs it says what is wrong


class Asked(NamedTuple):
    """What a comparison's config.json asks for, and what the data were."""

    members: dict[str, Experiment]
    seeds: int
    target: float | None
    data: dict[str, str]  # member -> hash, where that is known


def asked_in(path: Path) -> Asked:
    """What a comparison's config.json says, or a ValueError."""
    try:
        stored = folders.read_json(path)
        made = stored["experiments"].items()
        members = {name: folders.experiment_of(fields) for name, fields in made}
        seeds, target = stored["seeds"], number_in(stored["target"])
        data = {n: str(v) for n, v in stored.get("data", {}).items() if n in members}
    except folders.DAMAGED as error:
        raise ValueError(
            f"config must be the config.json of a comparison: {path} is not ({error!r})"
        ) from error
    found = {name: one for name, one in members.items() if one is not None}
    for name in members.keys() - found.keys():
        raise ValueError(
            f"the member {name} has objects given in Python: resume it there"
        )
    return Asked(found, seeds, target, data)


def number_in(value: object) -> float | None:
    """A target that a file has, or a ValueError."""
    if not isinstance(value, int | float | None) or isinstance(value, bool):
        raise ValueError(f"target must be a number: got {value!r}")
    return value
