"""Python programs as documents print them."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks(document):
    """The python blocks of a document, in order."""
    text = (ROOT / document).read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def lines(block):
    """The lines that a reader has to read."""
    return [line for line in block.splitlines() if line.strip()]


def shortened(block, *changes):
    """A block with fewer rounds, say; every change must be possible exactly once."""
    for printed, shorter in changes:
        assert block.count(printed) == 1, f"{printed!r} in\n{block}"
        block = block.replace(printed, shorter)
    return block


@cache
def run(block, document):
    """The names that a block defines."""
    names = {"__name__": "printed"}
    exec(compile(block, document, "exec"), names)
    return names
