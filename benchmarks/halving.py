"""Does halving find what a random sweep finds, at a quarter of the cost?

    python benchmarks/halving.py [--tiny]

The same random configurations go through `fm.sweep` and through `fm.search` with a
quarter of its gradients of single examples; both winners run again on 5 fresh seeds. On
`digits` (256 configurations) and Fashion-MNIST (64; MLP with 64 hidden units, 2 shards
per client, 10 of 100 clients, 5 steps, 100 rounds), with 3 repetitions of the draws.
Every piece is kept below benchmarks/work/halving: an ended study goes on there. Writes
benchmarks/results/halving.md.
"""

import dataclasses
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import fedjax_mos as fm
from fedjax_mos.lab.gradient_count import examples_per_round

HERE = Path(__file__).parent
WORK, RESULTS = HERE / "work" / "halving", HERE / "results"
REPETITIONS, FRESH, FIRST_FRESH = 3, 5, 1000
RANGES = {
    "lr": fm.Range(0.003, 3.0, log=True),
    "storm": fm.Range(0.05, 1.0),
    "prox": fm.Range(1e-4, 1.0, log=True),
    "server_momentum": fm.Range(0.0, 0.95),
}
SETTINGS = {
    "digits": (256, {"rounds": 100}),  # evaluated every round, which costs little
    "fashion_mnist": (
        64,
        {
            "dataset": "fashion_mnist",
            "partition": "shards",
            "model": "mlp",
            "options": {"hidden": (64,)},
            "clients": 100,
            "cohort": 10,
            "held_out": 0.1,  # what winners are chosen by; digits has a validation part
            "steps": 5,
            "rounds": 100,
            "eval_every": 100,  # and at rungs: 70,000 images cost more than rounds
        },
    ),
}


def again(winner: fm.Experiment) -> pd.Series:
    """Test accuracies of fresh seeds after the last round."""
    fresh = dataclasses.replace(winner, seed=FIRST_FRESH)
    frame = fresh.run(FRESH, progress=False).frame
    return frame[frame["round"] == fresh.rounds]["test_accuracy"]


def compared(name: str, repetition: int, cells: int, fields: dict) -> dict:
    """One draw of configurations, swept and searched."""
    base = fm.Experiment(**fields, seed=10 * repetition)
    folder = WORK / name / str(repetition)
    named = {"random": cells, **RANGES}
    cube = fm.sweep(base, out=folder / "sweep", **named)
    found = fm.search(base, out=folder / "search", unit="gradients", **named)
    assert cube.complete and found.complete, "interrupted"
    best = {n: cube.best()[n] for n in RANGES}
    swept = dataclasses.replace(base, options={**base.options, **best})
    each = examples_per_round(base)
    one, two = again(swept), again(found.winner)
    away = (one.var() / FRESH + two.var() / FRESH) ** 0.5
    return {
        "data": name,
        "repetition": repetition,
        "sweep, gradients": each * len(cube.frame),
        "search, gradients": each * found.spent()["rounds"],
        "sweep, accuracy": one.mean(),
        "search, accuracy": two.mean(),
        "difference": two.mean() - one.mean(),
        "its standard error": away,
        "as good": bool(two.mean() >= one.mean() - away),
    }


def main() -> None:
    tiny = "--tiny" in sys.argv
    fm.use_all_cores()
    rows = []
    for name, (cells, fields) in SETTINGS.items():
        if tiny:
            if name != "digits":
                continue
            cells, fields = 8, fields | {"rounds": 8}
        for repetition in range(1 if tiny else REPETITIONS):
            rows.append(compared(name, repetition, cells, fields))
            print(pd.Series(rows[-1]).to_string(), flush=True)
    write(pd.DataFrame(rows), tiny)


def write(table: pd.DataFrame, tiny: bool) -> None:
    share = table["search, gradients"] / table["sweep, gradients"]
    text = table.assign(share=share).to_string(
        index=False, float_format="{:.4g}".format
    )
    print(text)
    if tiny:
        return
    good = f"{int(np.sum(table['as good']))} of {len(table)}"
    (RESULTS / "halving.md").write_text(
        "# Halving against a random sweep of the same configurations\n\n"
        "Winners by the accuracy on validation or held-out examples, run again on "
        f"{FRESH} fresh seeds; {good} searches are within one standard error of the "
        f"difference, or better; jax {jax.__version__}, {jax.default_backend()}. "
        f"Repeat with `python benchmarks/halving.py`.\n\n```\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
