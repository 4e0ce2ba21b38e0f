"""What to cite: references.bib is the one place where papers are written down."""

import dataclasses
import re
from functools import cache
from importlib.resources import files

from fedjax_mos.components import cited
from fedjax_mos.data.sources.table import SOURCES
from fedjax_mos.lab.experiment import Experiment


@cache
def references() -> dict[str, str]:
    """Key -> BibTeX entry."""
    text = (files("fedjax_mos") / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{([^,\s]+),.*?^\}", text, re.DOTALL | re.MULTILINE)
    whole = re.findall(r"^@.*?^\}", text, re.DOTALL | re.MULTILINE)
    return dict(zip(entries, whole, strict=True))


def citation(experiment: Experiment) -> str:
    """The papers behind an experiment's components, as BibTeX.

    What was chosen comes first; what is there by default is marked.

    >>> print(citation(Experiment()).splitlines()[1])
    @inproceedings{wang2023fedmos,
    """
    usual = {field.name: field.default for field in dataclasses.fields(experiment)}
    used: dict[str, list[str]] = {}
    chosen: set[str] = set()
    for kind, part in experiment.parts.items():
        given = getattr(experiment, kind, None)
        default = isinstance(given, str | None) and given == usual.get(kind)
        source = SOURCES.get(part.name) if kind == "dataset" else None
        for key in source.cites if source else cited(part.spec.factory):
            told = f"{kind} {part.name}{' (the default)' * default}"
            used.setdefault(key, []).append(told)
            chosen |= set() if default else {key}
    entries = references()
    return "\n\n".join(
        f"% {', '.join(dict.fromkeys(used[key]))}\n{entries[key]}"
        for key in sorted(used, key=lambda key: key not in chosen)
    )


def short(key: str) -> str:
    """One line of text: authors, title, where and when."""
    entry = references()[key]

    def field(*names: str) -> str:
        for name in names:
            found = re.search(rf"\b{name}\s*=\s*\{{(.*?)\}},?\s*$", entry, re.M | re.S)
            if found:
                return re.sub(r"[{}]|\s+(?=\s)", "", found[1].replace("\n", " "))
        return ""

    people = field("author").split(" and ")
    first = people[0].partition(",")[0].strip()
    if len(people) == 2:
        first = f"{first} and {people[1].partition(',')[0].strip()}"
    authors = f"{first} et al." if len(people) > 2 else first
    where = field("booktitle", "journal", "howpublished", "note")
    parts = [authors, field("title"), f"{where} {field('year')}".strip()]
    return ", ".join(part for part in parts if part)
