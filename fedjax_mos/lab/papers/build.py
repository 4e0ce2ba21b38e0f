"""Experiments of a card."""

from pathlib import Path

from fedjax_mos.data.sources.locate import locate
from fedjax_mos.data.sources.table import SOURCES
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.papers.card import SCALES, Card, Column, Part


def experiments(
    part: Part,
    scale: str = "paper",
    rounds: int | None = None,
    data_dir: Path | None = None,
) -> dict[str, Experiment]:
    """Member -> experiment, with at most so many rounds."""
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}: got {scale!r}")
    made = {}
    for member in part.members:
        fields = part.fields(member, scale)
        if rounds is not None:
            fields["rounds"] = min(rounds, fields["rounds"])
        made[member.name] = Experiment(**fields, data_dir=data_dir)
    return made


def rounds_of(part: Part, scale: str, rounds: int | None = None) -> int:
    """How many rounds the members of a part run."""
    most = {**part.settings, **part.scales[scale]}["rounds"]
    return most if rounds is None else min(rounds, most)


def round_of(column: Column, part: Part, ran: int) -> int:
    """The round after which a column is read: earlier where fewer rounds are run."""
    assert column.after is not None
    return max(1, round(column.after * ran / part.settings["rounds"]))


def check_data(card: Card, parts: list[Part], data_dir: Path | None) -> None:
    """Raise a FileNotFoundError, of one line, for a data set that is not there."""
    for part in parts:
        name = part.settings["dataset"]
        source = SOURCES.get(name)
        if source is None or source.stored is None:
            continue
        try:
            locate(name, source.stored.layout, data_dir)
        except FileNotFoundError as error:
            if data_dir is not None and not data_dir.expanduser().is_dir():
                raise
            raise FileNotFoundError(
                f"{card.name}, part {part.name}, needs {name}, which is not on this "
                f"machine: fedjax-mos data get {name}"
            ) from error
