"""Every card with its cost."""

from fedjax_mos.lab.papers.build import rounds_of
from fedjax_mos.lab.papers.card import SCALES, Card, all_cards


def listing() -> str:
    """One line per card: what it is, and what it costs in each scale."""
    cards = all_cards().values()
    heads = ["name", *(f"{scale} scale" for scale in SCALES), "what"]
    rows = [heads, *([c.name, *_costs(c), f"{c.source}: {c.title}"] for c in cards)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    note = (
        "Cost: rounds of all members and seeds together, and minutes on two CPU cores "
        "where they are known: from the CPU time of ten rounds of some members."
    )
    return "\n".join([*(line.rstrip() for line in lines), note])


def rounds(card: Card, scale: str) -> int:
    """Rounds of all parts, members and seeds together."""
    each = (rounds_of(part, scale) * len(part.members) for part in card.parts)
    return card.seeds * sum(each)


def _costs(card: Card) -> list[str]:
    known = {s: f", {m:g} min" for s, m in card.minutes.items()}
    return [f"{rounds(card, s)} rounds{known.get(s, '')}" for s in SCALES]
