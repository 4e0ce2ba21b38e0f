"""The tables of docs/accelerators.md are those of the rows that are kept."""

import importlib.util
import json

from fedjax_mos.lab import catalog
from tests.docs.printed import ROOT


def test_tables_are_generated():
    """Figures of another compilation, or a method that was never compiled."""
    path = ROOT / "benchmarks" / "accelerators_table.py"
    found = importlib.util.spec_from_file_location("accelerators_table", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    page = (ROOT / "docs" / "accelerators.md").read_text()
    kept = ROOT / "benchmarks" / "results" / "accelerators.jsonl"
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert module.written(page, rows) == page
    compiled = {(row["case"], row["machine"]) for row in rows}
    for machine in ("v5e-1", "v5e-16", "v5e-256", "a100"):
        for name in catalog.ALGORITHMS:
            assert (f"algorithm {name}", machine) in compiled
