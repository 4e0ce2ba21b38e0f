"""Does a learned schedule beat the best constant, exponential and cosine ones?

    python benchmarks/schedules.py [--tiny]

For each setting four ways to a local step size, all of about the same cost in rounds:
halving among constants, among exponential and among cosine schedules (first and last
value drawn), and `fm.tune` with one value per round (50) from the winner of a small
halving among constants. Winners run on 20 fresh seeds: test accuracy after the last
round, and rounds to the accuracy that the best constant has in the end. Everything is
kept below benchmarks/work/schedules: an ended study goes on there. Writes
benchmarks/results/schedules.md.
"""

import dataclasses
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import fedjax_mos as fm

HERE = Path(__file__).parent
WORK, RESULTS = HERE / "work" / "schedules", HERE / "results"
ROUNDS, UPDATES, SEEDS, FRESH, FIRST_FRESH = 50, 16, 5, 20, 1000
LOW, HIGH = 0.003, 3.0
IMAGES = 10_000
EVERY = 2  # rounds between evaluations of winners
SETTINGS = {  # all with a tenth of every client's examples held out, to choose by
    "synthetic(1,1)": {"dataset": "synthetic", "cohort": 10},
    "Fashion-MNIST, 2 shards": {
        "dataset": "fashion_mnist",
        "partition": "shards",
        "model": "mlp",
        "options": {"hidden": (64,)},
        "clients": 100,
        "cohort": 10,
    },
    "MNIST, 2 classes": {
        "dataset": "mnist",
        "partition": "classes",
        "model": "mlp",
        "options": {"hidden": (64,)},
        "clients": 100,
        "cohort": 10,
    },
}


def first_images(fields: dict) -> dict:
    """With the first 10,000 training images: evaluating all costs more than rounds."""
    if fields["dataset"] not in ("mnist", "fashion_mnist"):
        return fields
    whole = fm.datasets.load(fields["dataset"])
    part = whole.train.x[:IMAGES], whole.train.y[:IMAGES]
    return fields | {"dataset": fm.arrays(*part, *whole.test)}


def families(rounds: int, count: int, seed: int) -> dict[str, list[dict]]:
    """Points of every family of schedules; ends are even in the logarithm."""
    rng = np.random.default_rng(seed)
    ends = np.exp(rng.uniform(np.log(LOW), np.log(HIGH), (count, 2)))
    time = np.linspace(0, 1, rounds)
    falling = np.sort(ends, axis=1)[:, ::-1]
    return {
        "constant": [{"lr": float(a)} for a, _ in ends],
        "exponential": [{"lr": fm.Schedule(a * (b / a) ** time)} for a, b in falling],
        "cosine": [
            {"lr": fm.Schedule(b + (a - b) * (1 + np.cos(np.pi * time)) / 2)}
            for a, b in falling
        ],
    }


def tuned(base: fm.Experiment, folder: Path, updates: int) -> fm.Tuned:
    """One value per round, from the winner of a halving among constants."""
    return fm.tune(
        base,
        schedules={"lr": "rounds"},
        updates=updates,
        seeds=SEEDS,
        bounds={"lr": (LOW, HIGH)},
        out=folder,
    )


def study(
    name: str, fields: dict, updates: int, fresh: int, per_sweep: int = 2
) -> list[dict]:
    """All ways of one setting, with rounds that each may spend."""
    base = fm.Experiment(
        **first_images(fields),
        algorithm="fedavg",
        held_out=0.1,
        eval_every=fields["rounds"],
    )
    folder = WORK / "".join(c if c.isalnum() else "_" for c in name)
    learned = tuned(base, folder / "tune", updates)
    cost = int(learned.frame["cost"].iloc[-1])
    winners = {f"learned, {base.rounds} numbers": (learned.experiment, cost)}
    # As many as the cost pays for, where halving takes half of a sweep.
    count = max(per_sweep * cost // (base.rounds * SEEDS), 4)
    for family, points in families(base.rounds, count, base.seed).items():
        found = fm.search(
            base,
            points,
            seeds=SEEDS,
            budget=cost,
            metric=learned.objective,
            out=folder / family,
        )
        winners[family] = found.winner, int(found.spent()["rounds"])
    again = {"seed": FIRST_FRESH, "eval_every": EVERY}
    frames = {
        way: dataclasses.replace(one, **again).run(fresh, progress=False).frame
        for way, (one, _) in winners.items()
    }
    ends = {way: frame.groupby("seed").tail(1) for way, frame in frames.items()}
    target = float(ends["constant"]["test_accuracy"].mean())
    rows = []
    for way, frame in frames.items():
        curve = frame.groupby("round")["test_accuracy"].mean().dropna()
        reached = curve.index[curve >= target]
        rows.append(
            {
                "setting": name,
                "rate": way,
                "cost in rounds": winners[way][1],
                "test accuracy": ends[way]["test_accuracy"].mean(),
                "std": ends[way]["test_accuracy"].std(),
                learned.objective: ends[way][learned.objective].mean(),
                "rounds to the constant's": reached[0] if len(reached) else np.nan,
                "growth": float(learned.frame["growth"].max())
                if way.startswith("learned")
                else np.nan,
            }
        )
    return rows


def main() -> None:
    tiny = "--tiny" in sys.argv
    fm.use_all_cores()
    rows = []
    for name, fields in SETTINGS.items():
        if tiny:
            fields = {"dataset": "digits", "model": "logistic", "rounds": 6}
            rows += study("tiny", fields, 3, 2, per_sweep=1)
            break
        rows += study(name, fields | {"rounds": ROUNDS}, UPDATES, FRESH)
        print(pd.DataFrame(rows).to_string(), flush=True)
    text = pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format)
    print(text)
    if tiny:
        return
    (RESULTS / "schedules.md").write_text(
        "# A learned schedule of the local step size against searched ones\n\n"
        f"{ROUNDS} rounds, the first {IMAGES:,} training images; means of {FRESH} "
        f"fresh seeds; chosen with {SEEDS} others by the loss on held-out examples. "
        f"jax {jax.__version__}, {jax.default_backend()}. Repeat with "
        f"`python benchmarks/schedules.py`.\n\n```\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
