"""The tables of docs/accelerators.md, from the rows that `accelerators.py` keeps."""

import re
from typing import Any

BEGIN, END = "<!-- generated -->", "<!-- end -->"
Row = dict[str, Any]


def written(page: str, rows: list[Row]) -> str:
    """The page with new tables between its marks."""
    latest = {(row["case"], row["machine"]): row for row in rows}
    known = {key: row for key, row in latest.items() if "error" not in row}
    failed = [row for row in latest.values() if "error" in row]
    made = sorted({row["versions"] for row in rows})
    text = "\n".join(
        [
            f"Compiled by {' and '.join(made)}; {len(known)} programs.",
            *_steps(known),
            *_blocks(known),
            *_algorithms(known),
            *(f"\n{r['case']} on {r['machine']}: {r['error']}" for r in failed),
        ]
    )
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}"


def _steps(known: dict) -> list[str]:
    lines = [
        "\n### One local step of a cohort\n",
        "| model x lanes | v5e: GFlop (least) | GB accessed (least) | MB temporary | "
        "fusions | A100: MB temporary | kernels |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in _names(known, "step"):
        tpu, gpu = (known.get((f"step {name}", m), {}) for m in ("v5e-1", "a100"))
        flops = f"{_scaled(tpu, 'flops', 1e9)} ({_scaled(tpu, 'least_flops', 1e9)})"
        moved = f"{_scaled(tpu, 'bytes', 1e9)} ({_scaled(tpu, 'least_bytes', 1e9)})"
        flops, moved = (flops, moved) if tpu else ("does not fit", "")
        lines.append(
            f"| {name} | {flops} | {moved} | {_scaled(tpu, 'temporary', 1e6)} | "
            f"{tpu.get('step', '')} | {_scaled(gpu, 'temporary', 1e6)} | "
            f"{gpu.get('step', '')} |"
        )
    return lines


def _blocks(known: dict) -> list[str]:
    lines = [
        "\n### A block of rounds, FedAvg\n",
        "MB are of arguments, outputs and temporary memory together, what is donated "
        "counted once; kernels (fusions and the like) of a round + of a local step.\n",
        "| model x lanes | v5e: MB | kernels | A100: MB | kernels |",
        "|---|---|---|---|---|",
    ]
    for name in _names(known, "block"):
        tpu, gpu = (known.get((f"block {name}", m), {}) for m in ("v5e-1", "a100"))
        lines.append(
            f"| {name} | {_memory(tpu) or 'does not fit'} | {_kernels(tpu)} | "
            f"{_memory(gpu)} | {_kernels(gpu)} |"
        )
    return lines


def _algorithms(known: dict) -> list[str]:
    lines = [
        "\n### Every algorithm\n",
        "A block with evaluations: 2,048 clients, cohort 256, an MLP with "
        "4,810 parameters, 3 steps of 4 examples, rows cut by client. MB per chip, "
        "kernels of a round + of a local step, collectives and kB of their results.\n",
        "| algorithm | v5e: MB | kernels | A100: MB | kernels | 16 chips: MB | "
        "collectives | kB | 256 chips: MB | collectives | kB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in _names(known, "algorithm"):
        one, gpu, few, many = (
            known.get((f"algorithm {name}", machine), {})
            for machine in ("v5e-1", "a100", "v5e-16", "v5e-256")
        )
        lines.append(
            f"| {name} | {_memory(one)} | {_kernels(one)} | {_memory(gpu)} | "
            f"{_kernels(gpu)} | {_memory(few)} | {_moved(few)} | "
            f"{_memory(many)} | {_moved(many)} |"
        )
    return lines


def _names(known: dict, kind: str) -> list[str]:
    found = [case.partition(" ")[2] for case, _ in known if case.startswith(f"{kind} ")]
    return list(dict.fromkeys(found))


def _scaled(row: Row, name: str, unit: float) -> str:
    return "" if row.get(name) is None else f"{row[name] / unit:.3g}"


def _memory(row: Row) -> str:
    if not row:
        return ""
    parts = ("arguments", "outputs", "temporary")
    return f"{(sum(row[n] for n in parts) - row['aliased']) / 1e6:.3g}"


def _kernels(row: Row) -> str:
    return f"{row['round']} + {row['step']}" if row else ""


def _moved(row: Row) -> str:
    """Two cells: how many of each kind, and all their bytes."""
    if not row:
        return " | "
    kinds = [f"{n} {re.sub('-', ' ', kind)}" for kind, (n, _) in row["moved"].items()]
    return f"{', '.join(kinds)} | {sum(b for _, b in row['moved'].values()) / 1e3:.3g}"
