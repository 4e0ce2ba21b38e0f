"""The program of docs/scale.md runs as it is printed."""

from tests.docs import printed


def test_generated_clients_as_printed():
    """A reader copies it first of all."""
    (block,) = printed.blocks("docs/scale.md")
    short = block.replace("1_000_000", "500").replace("rounds=20", "rounds=2")
    frame = printed.run(short.replace("run(seeds=2)", "run(progress=False)"), "scale")
    assert frame["result"].frame["test_loss"].notna().all()
