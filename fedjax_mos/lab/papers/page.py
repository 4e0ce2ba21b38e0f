"""A reproduced card as one page."""

from collections.abc import Mapping, Sequence

from fedjax_mos.lab.citation import short
from fedjax_mos.lab.papers.card import Card, Part
from fedjax_mos.lab.printed import Printed


def page(
    card: Card,
    scale: str,
    parts: Sequence[Part],
    tables: Mapping[str, Printed],
    about: Sequence[str],
) -> str:
    """Markdown."""
    lines = [
        f"# {card.name}: {card.title}",
        "",
        f"{card.source} of {short(card.cite)}.",
    ]
    lines += ["", f"**{scale}**"]
    for part in parts:
        lines += ["", f"## {part.title}", "", tables[part.name].markdown()]
        if part.assumed:
            lines += ["", f"Assumed: {part.assumed}"]
    if card.assumed:
        lines += ["", "## Assumed", "", card.assumed]
    if about:
        lines += ["", "## Provenance", "", *(f"* {line}" for line in about)]
    return "\n".join(lines)
