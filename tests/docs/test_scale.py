"""The program of docs/scale.md runs as it is printed."""

import importlib.util

from tests.docs import printed


def test_generated_clients_as_printed():
    """A reader copies it first of all."""
    (block,) = printed.blocks("docs/scale.md")
    short = block.replace("1_000_000", "500").replace("rounds=20", "rounds=2")
    frame = printed.run(short.replace("run(seeds=2)", "run(progress=False)"), "scale")
    assert frame["result"].frame["test_loss"].notna().all()


def test_tables_that_were_not_measured_stay():
    """`--only rows`, which deletes the tables of hours."""
    path = printed.ROOT / "benchmarks" / "many_clients.py"
    spec = importlib.util.spec_from_file_location("many_clients", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    page = benchmark.RESULT.read_text()
    assert benchmark.replaced(page, {}) == page
    other = benchmark.replaced(page, {"lanes": "of today"})
    before, _, after = page.partition("### lanes\n")
    assert other.startswith(f"{before}### lanes\n\nof today\n\n### model\n")
    assert other.endswith(after.partition("### model")[2])
    assert benchmark.replaced("", {"rows": "first"}) == "\n### rows\n\nfirst\n"
