"""The page on installing."""

import configparser
import re

from tests.docs.printed import ROOT


def test_every_extra_is_on_the_page():
    """An extra that nobody hears of."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs/install.md").read_text(), re.M)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted(setup["options.extras_require"])
