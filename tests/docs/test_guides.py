"""The guides' programs run as they are printed."""

import numpy as np
import pytest

from tests.docs import printed

GUIDES = sorted(path.name for path in (printed.ROOT / "docs").glob("adding_*.md"))
BLOCKS = [
    pytest.param(name, block, id=f"{name.removesuffix('.md')}-{i}")
    for name in GUIDES
    for i, block in enumerate(printed.blocks(f"docs/{name}"))
]


@pytest.mark.parametrize("name", GUIDES)
def test_every_guide_has_a_program(name):
    """A guide without a program that runs cannot be followed."""
    assert len(GUIDES) == 4 and printed.blocks(f"docs/{name}")


def result(name, block):
    """What the program computes in two rounds, once."""
    short = block.replace("rounds=3", "rounds=2")
    short = short.replace(".run()", ".run(progress=False)")
    assert "rounds=2" in short and "progress=False" in short
    return printed.run(short, name)["result"].frame


@pytest.mark.parametrize(("name", "block"), BLOCKS)
def test_the_program_runs(name, block):
    """A reader copies it first of all."""
    assert len(printed.lines(block)) <= 25
    frame = result(name, block)
    assert len(frame) == 2 and np.isfinite(frame["test_loss"]).all()


def test_the_channel_halves_the_bits():
    """Own components are used, not only accepted."""
    (block,) = printed.blocks("docs/adding_a_channel.md")
    frame = result("adding_a_channel.md", block)
    assert (2 * frame["bits_up"] == frame["bits_down"]).all()


def test_the_partition_divides_by_parity():
    """The same for a partition: the first clients have even labels."""
    (block,) = printed.blocks("docs/adding_a_partition.md")
    halves = printed.run(block.split("experiment =")[0], "partition")["halves"]
    labels = np.arange(100) % 10
    part = halves(labels, 20, 0)
    first = part.size[:10].sum()
    assert (labels[part.order[:first]] % 2 == 0).all()
    assert (labels[part.order[first:]] % 2 == 1).all()
