"""What to cite: references.bib is the one place where papers are written down."""

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

    >>> print(citation(Experiment()).splitlines()[1])
    @inproceedings{wang2023fedmos,
    """
    used: dict[str, list[str]] = {}
    for kind, part in experiment.parts.items():
        source = SOURCES.get(part.name) if kind == "dataset" else None
        for key in source.cites if source else cited(part.spec.factory):
            used.setdefault(key, []).append(kind)
    entries = references()
    return "\n\n".join(
        f"% {', '.join(dict.fromkeys(kinds))}\n{entries[key]}"
        for key, kinds in used.items()
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
