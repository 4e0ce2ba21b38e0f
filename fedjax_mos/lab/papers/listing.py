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
        "Cost: rounds of all members and seeds together, and about how long they take "
        "on two CPU cores: from the time of one gradient and one evaluated example."
    )
    return "\n".join([*(line.rstrip() for line in lines), note])


def rounds(card: Card, scale: str) -> int:
    """Rounds of all parts, members and seeds together."""
    each = (rounds_of(part, scale) * len(part.members) for part in card.parts)
    return card.seeds * sum(each)


def _costs(card: Card) -> list[str]:
    known = {scale: f", {_time(m)}" for scale, m in card.minutes.items()}
    return [f"{rounds(card, s)} rounds{known.get(s, '')}" for s in SCALES]


def _time(minutes: float) -> str:
    """In the unit that one would say.

    >>> [_time(m) for m in (0.4, 45, 200, 12_000)]
    ['1 min', '45 min', '3 h', '8 days']
    """
    if minutes < 100:
        return f"{max(1, minutes):.0f} min"
    hours = minutes / 60
    return f"{hours:.0f} h" if hours < 100 else f"{hours / 24:.0f} days"
