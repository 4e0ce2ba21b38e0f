"""Cards: what a table or figure of a paper shows, under which settings.

One TOML file per paper. `[settings.NAME]` holds fields of an experiment,
`[members.NAME]` one method with its own numbers (`like` starts from another),
`[cards.NAME]` a table or figure (which may be `like` another as well): its parts, each
with settings, members, columns and published values.
"""

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fedjax_mos.lab.columns import in_percent, label
from fedjax_mos.lab.formats import in_unit
from fedjax_mos.lab.setting import Method

SCALES = ("paper", "small")
WINDOW = 20  # rounds before a crossing that are evaluated one by one

Value = float | str  # as printed: a number, "1000+", or "" for none
_FIELDS = {field.name for field in dataclasses.fields(Method)}
_COST = "minutes"  # which a card that is `like` another does not share with it
_PART = {"name", "title", "assumed", "published", "until_targets"}
_SHARED = {"settings", *SCALES, "columns", "members"}  # of a card, for all its parts


@dataclasses.dataclass(frozen=True)
class Column:
    """A number that a table prints for every member.

    With `target` the rounds (or Mbit) until the metric reaches it, with `after` the
    metric after that round, with `window` its mean squared deviation from a moving
    average over so many evaluations.
    """

    metric: str = "test_accuracy"
    target: float | None = None
    after: int | None = None
    window: int | None = None
    count: str = "rounds"

    def __post_init__(self) -> None:
        given = [self.target, self.after, self.window]
        if sum(one is not None for one in given) != 1:
            raise ValueError(
                f"a column has one of target, after and window: got {given}"
            )
        if self.count not in ("rounds", "Mbit"):
            raise ValueError(f"count must be rounds or Mbit: got {self.count!r}")

    @property
    def title(self) -> str:
        """What stands above it."""
        words = label(self.metric).removesuffix(" in %")
        if self.target is not None:
            return f"{self.count} to {in_unit(self.metric, self.target)} {words}"
        if self.after is not None:
            unit = " in %" if in_percent(self.metric) else ""
            return f"{words}{unit} after round {self.after}"
        return f"squared deviation of {words} from its mean over {self.window}"


@dataclasses.dataclass(frozen=True)
class Member:
    """A method with its numbers; `fields` are those of an experiment."""

    name: str
    title: str
    fields: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Part:
    """Members under one setting, with a column for each published value."""

    name: str
    title: str
    settings: Mapping[str, Any]
    scales: Mapping[str, Mapping[str, Any]]  # what each scale changes
    members: tuple[Member, ...]
    columns: tuple[Column, ...]
    published: Mapping[str, tuple[Value, ...]]  # by member
    assumed: str = ""
    until_targets: bool = False  # runs end when every column's target is reached

    def fields(self, member: Member, scale: str) -> dict[str, Any]:
        """Of the member's experiment."""
        return _merged(_merged(self.settings, member.fields), self.scales[scale])


@dataclasses.dataclass(frozen=True)
class Panel:
    """One panel of a figure: a metric of some members of a part."""

    part: str
    metric: str
    members: tuple[str, ...]
    title: str


@dataclasses.dataclass(frozen=True)
class Card:
    """A table or a figure of a paper."""

    name: str
    cite: str  # key of references.bib
    source: str  # Table I, Figure 2, ...
    title: str
    parts: tuple[Part, ...]
    panels: tuple[Panel, ...]  # none: bars of published and own values
    x: str = "round"
    smooth: int = 1
    seeds: int = 1
    assumed: str = ""
    minutes: Mapping[str, float] = dataclasses.field(default_factory=dict)  # by scale


@cache
def all_cards() -> dict[str, Card]:
    """Every card by name, in the order of papers and of their pages."""
    folder = files("fedjax_mos.lab.papers")
    found: dict[str, Card] = {}
    for path in sorted(p.name for p in folder.iterdir() if p.name.endswith(".toml")):
        stored = tomllib.loads((folder / path).read_text(encoding="utf-8"))
        for name, card in stored["cards"].items():
            try:
                found[name] = _card(name, card, stored)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, card {name}: {error}") from error
    return found


def card_named(name: str) -> Card:
    """The card, or a ValueError that lists what there is."""
    cards = all_cards()
    if name not in cards:
        close = difflib.get_close_matches(name, cards, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(f"name must be one of {', '.join(cards)}: got {name!r}{hint}")
    return cards[name]


def _card(name: str, stored: dict[str, Any], file: dict[str, Any]) -> Card:
    while "like" in stored:
        base = {n: v for n, v in file["cards"][stored["like"]].items() if n != _COST}
        stored = base | {n: v for n, v in stored.items() if n != "like"}
    stored = dict(stored)
    shared = {name: stored.pop(name) for name in _SHARED & stored.keys()}
    parts = tuple(_part(one, shared, file) for one in stored.pop("parts"))
    curves = stored.pop("curves", [])
    panels = _panels(stored.pop("panels", None), parts, curves)
    text = " ".join(filter(None, [file.get("assumed"), stored.pop("assumed", "")]))
    return Card(name, file["cite"], parts=parts, panels=panels, assumed=text, **stored)


def _part(one: dict[str, Any], shared: dict[str, Any], file: dict[str, Any]) -> Part:
    _check(one, _PART | _SHARED, f"part {one['name']}")
    settings = _setting([*shared["settings"], *one.get("settings", [])], file)
    one = shared | one
    scales = {scale: _setting(one.get(scale, []), file) for scale in SCALES}
    members = tuple(_member(name, file) for name in one["members"])
    columns = tuple(Column(**column) for column in one.get("columns", []))
    published = {n: tuple(v) for n, v in one.get("published", {}).items()}
    known = {member.name for member in members}
    for name, values in published.items():
        if name not in known:
            raise ValueError(f"{name} has published values and is no member")
        if len(values) != len(columns):
            raise ValueError(f"{name} needs {len(columns)} values: got {len(values)}")
    until = one.get("until_targets", False)
    if until and not all(column.target for column in columns):
        raise ValueError("until_targets needs a target in every column")
    return Part(
        one["name"],
        one.get("title", one["name"]),
        settings,
        scales,
        members,
        columns,
        published,
        one.get("assumed", ""),
        until,
    )


def _panels(
    given: list[dict[str, Any]] | None, parts: tuple[Part, ...], curves: list[str]
) -> tuple[Panel, ...]:
    """As given, or every metric of `curves` for every part."""
    if given is None:
        given = [{"part": p.name, "metric": m} for p in parts for m in curves]
    known = {part.name: part for part in parts}
    out = []
    for one in given:
        part = known[one["part"]]
        every = tuple(member.name for member in part.members)
        members = tuple(one.get("members", every))
        if unknown := set(members) - set(every):
            raise ValueError(f"panel of {part.name}: {unknown} are no members")
        title = one.get("title", part.title)
        out.append(Panel(part.name, one["metric"], members, title))
    return tuple(out)


def _setting(names: list[str], file: dict[str, Any]) -> dict[str, Any]:
    """Several settings together; later ones go before earlier ones."""
    together: dict[str, Any] = {}
    for name in names:
        _check(file["settings"][name], _FIELDS, f"settings {name}")
        together = _merged(together, file["settings"][name])
    return together


def _member(name: str, file: dict[str, Any]) -> Member:
    stored = dict(file["members"][name])
    like = stored.pop("like", None)
    title = stored.pop("title", None)
    _check(stored, _FIELDS, f"member {name}")
    if like is None:
        return Member(name, title or name, stored)
    base = _member(like, file)
    return Member(name, title or base.title, _merged(base.fields, stored))


def _check(fields: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := fields.keys() - known:
        raise ValueError(f"{where} has the unknown fields {', '.join(unknown)}")


def _merged(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    """`then` goes before `first`, option by option."""
    merged = {**first, **then}
    if "options" in first and "options" in then:
        merged["options"] = {**first["options"], **then["options"]}
    # One of the two counts local work.
    for one, other in (("steps", "epochs"), ("epochs", "steps")):
        if one in then:
            merged.pop(other, None)
    return merged
