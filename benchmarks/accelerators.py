"""Rounds compiled by the compilers of TPUs and GPUs, and what those say of them.

    python benchmarks/accelerators.py            # all that is not in the file yet
    python benchmarks/accelerators.py --only "ResNet" --minutes 10
    python benchmarks/accelerators.py --table    # docs/accelerators.md from the file

No device is needed, only `libtpu` or `jax[cuda12]`; what has no compiler is left out. A
row is kept in results/accelerators.jsonl as soon as it is known, so that an ended run
resumes. Figures hold for the versions that the table names.
"""

import argparse
import json
import time
from collections.abc import Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import compilers
import structures
from compilers import PLATFORM, is_there

from fedjax_mos.lab import catalog
from fedjax_mos.tree import bytes_of

ROWS = Path(__file__).parent / "results" / "accelerators.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "accelerators.md"
FIRST = ("fedavg", "fedmos", "scaffold", "fedcams", "fedbnlaca", "stem")
LANES = (1, 32)


def cases() -> Iterator[tuple[str, str, Any]]:
    """Label, machine and what to compile: the most telling ones first."""
    for name in FIRST:
        for machine in ("v5e-1", "v5e-16", "v5e-256"):
            yield f"algorithm {name}", machine, partial(structures.algorithm, name)
    for name in structures.MODELS:
        for lanes in LANES:
            for machine in ("v5e-1", "a100"):
                step = partial(structures.local_step, name, lanes)
                yield f"step {name} x {lanes}", machine, step
                rounds = partial(structures.block, name, lanes)
                yield f"block {name} x {lanes}", machine, rounds
    for machine in ("v5e-1", "a100", "v5e-16", "v5e-256"):
        for name in catalog.ALGORITHMS:
            if name not in FIRST or machine == "a100":
                yield f"algorithm {name}", machine, partial(structures.algorithm, name)


def measured(label: str, made: structures.Structure) -> dict[str, Any]:
    """What the compiler says of a structure."""
    program = made.compiled()
    if not label.startswith("step"):
        return compilers.facts(program) | {"state": made.state, "rows": made.rows}
    text, memory = compilers.Text(program.as_text()), program.memory_analysis()
    cost = program.cost_analysis() or {}
    params, x, y, _ = made.args
    plain = made.function.lower(*made.args).cost_analysis() or {}
    return {
        "temporary": memory.temp_size_in_bytes,
        "step": text.deep(text.entry),
        "flops": cost.get("flops"),
        "bytes": cost.get("bytes accessed"),
        "least_flops": plain.get("flops"),
        # Models read and written once, examples read.
        "least_bytes": 2 * bytes_of(params) + bytes_of((x, y)),
    }


def versions(machine: str) -> str:
    """Of what compiles for a machine."""
    package = {"tpu": "libtpu", "cuda": "jax-cuda12-plugin"}[PLATFORM[machine]]
    try:
        return f"jax {version('jax')}, {package} {version(package)}"
    except PackageNotFoundError:
        return ""


def rows() -> list[dict[str, Any]]:
    """What is known so far."""
    text = ROWS.read_text() if ROWS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def compile_all(only: str, minutes: float) -> None:
    """Compile what is not known yet, until the time is over."""
    end = time.monotonic() + 60 * minutes
    known = {(row["case"], row["machine"], row["versions"]) for row in rows()}
    for label, machine, make in cases():
        if only not in f"{label} {machine}" or not is_there(machine):
            continue
        if (label, machine, versions(machine)) in known or time.monotonic() > end:
            continue
        begin = time.monotonic()
        row = {"case": label, "machine": machine, "versions": versions(machine)}
        try:
            row |= measured(label, make(machine))
        except Exception as error:  # what does not compile is a row too
            row["error"] = str(error).strip().splitlines()[0][:200]
        row["seconds"] = round(time.monotonic() - begin, 1)
        with ROWS.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose label contains this")
    parser.add_argument("--minutes", type=float, default=600, help="begin none after")
    parser.add_argument("--table", action="store_true", help="write the page only")
    given = parser.parse_args()
    if not given.table:
        compile_all(given.only, given.minutes)
    from accelerators_table import written

    PAGE.write_text(written(PAGE.read_text(), rows()))


if __name__ == "__main__":
    main()
