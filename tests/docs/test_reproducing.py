"""The card that docs/reproducing.md prints is one."""

import re
import tomllib

from fedjax_mos.lab.papers import card
from tests.docs.printed import ROOT


def test_the_card_is_read():
    """By what reads the cards of the package."""
    text = (ROOT / "docs/reproducing.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    stored = tomllib.loads(block)
    ((name, told),) = stored["cards"].items()
    (part,) = card._card(name, told, stored).parts
    (member,) = part.members
    assert part.published == {"mine": (62, 98.6)}
    paper, small = (part.fields(member, scale) for scale in card.SCALES)
    assert paper["rounds"] == 500 and small["rounds"] == 50
    assert paper["options"] == {"weight_decay": 0.001, "lr": 0.01}
