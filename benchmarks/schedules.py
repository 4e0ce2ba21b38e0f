"""Do learned schedules beat the best constant, exponential and cosine ones?

    python benchmarks/schedules.py [--rounds 20] [--only SETTING] [--tiny]

FedAvgM has three numbers that may change from round to round: the local step size, the
server's, and its momentum. Ways to them, at the same cost in rounds:

* learned: a halving among points of all families below takes a fifth of the cost,
  `fm.tune` polishes its winner with one value per round of all three numbers;
* families, each by a halving of its own: constants; an exponential or a cosine schedule
  of the local step size with constant others; exponential or cosine schedules of all
  three, each falling from its own first to its own last value.

Winners run on 20 fresh seeds: test accuracy after the last round, and rounds to the
accuracy that the best family has in the end. Everything is kept below
benchmarks/work/schedules: an ended study goes on there. Writes
benchmarks/results/schedules_ROUNDS.md.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from scipy import stats

import fedjax_mos as fm

HERE = Path(__file__).parent
WORK, RESULTS = HERE / "work" / "schedules", HERE / "results"
UPDATES, SEEDS, FRESH, FIRST_FRESH = 24, 5, 20, 1000
FIRST = 100  # points of the halving that a learned schedule begins from
BOXES = {"lr": (0.003, 3.0), "server_lr": (0.3, 3.0), "server_momentum": (0.02, 0.98)}
GOAL = "held_out_loss"
IMAGES = 10_000
_CLASSES = {"model": "mlp", "options": {"hidden": (64,)}, "clients": 100, "cohort": 10}
SETTINGS = {  # all with a tenth of every client's examples held out, to choose by
    "synthetic(1,1)": {"dataset": "synthetic", "cohort": 10},
    "Fashion-MNIST, 2 shards": {"dataset": "fashion_mnist", "partition": "shards"}
    | _CLASSES,
    "MNIST, 2 classes": {"dataset": "mnist", "partition": "classes"} | _CLASSES,
}
# Values from `first` to `last` as time goes from 0 to 1.
Curve = Callable[[float, float, np.ndarray], np.ndarray]
CURVES: dict[str, Curve] = {
    "exponential": lambda first, last, time: first * (last / first) ** time,
    "cosine": lambda first, last, time: (
        last + (first - last) * (1 + np.cos(np.pi * time)) / 2
    ),
}


def first_images(fields: dict) -> dict:
    """With the first 10,000 training images: evaluating all costs more than rounds."""
    if fields["dataset"] not in ("mnist", "fashion_mnist"):
        return fields
    whole = fm.datasets.load(fields["dataset"])
    part = whole.train.x[:IMAGES], whole.train.y[:IMAGES]
    return fields | {"dataset": fm.arrays(*part, *whole.test)}


def families(rounds: int, count: int, seed: int) -> dict[str, list[dict]]:
    """Points of every family; rates are even in the logarithm, momenta as they are."""
    rng = np.random.default_rng(seed)
    time = np.linspace(0, 1, rounds)

    def drawn(name: str) -> float:
        low, high = BOXES[name]
        if name == "server_momentum":
            return float(rng.uniform(low, high))
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    def falling(name: str, curve: Curve) -> fm.Schedule:
        last, first = sorted((drawn(name), drawn(name)))
        return fm.Schedule(curve(first, last, time))

    found = {"constant": [{n: drawn(n) for n in BOXES} for _ in range(count)]}
    for title, curve in CURVES.items():
        for which, names in (("lr", ("lr",)), ("all three", tuple(BOXES))):
            found[f"{title}, {which}"] = [
                {n: falling(n, curve) if n in names else drawn(n) for n in BOXES}
                for _ in range(count)
            ]
    return found


def learned(base: fm.Experiment, folder: Path, updates: int) -> tuple[fm.Tuned, int]:
    """A value per round of all numbers, and the cost of finding them in rounds."""
    mixed = families(base.rounds, FIRST // 5, base.seed + 1)
    points = [point for each in mixed.values() for point in each]
    begun = fm.search(base, points, seeds=SEEDS, metric=GOAL, out=folder / "search")
    tuned = fm.tune(
        begun,
        schedules=dict.fromkeys(BOXES, "rounds"),
        updates=updates,
        seeds=SEEDS,
        objective=GOAL,
        bounds=BOXES,
        out=folder / "tune",
    )
    assert begun.complete and tuned.complete, "interrupted"
    spent = int(begun.spent()["rounds"]) + int(tuned.frame["cost"].iloc[-1])
    return tuned, spent


def study(name: str, fields: dict, updates: int, fresh: int) -> list[dict]:
    """All ways of one setting, with rounds that each has spent."""
    base = fm.Experiment(
        **first_images(fields),
        algorithm="fedavgm",
        held_out=0.1,
        eval_every=fields["rounds"],
    )
    label = "".join(c if c.isalnum() else "_" for c in name)
    folder = WORK / f"{label}_{base.rounds}"
    tuned, cost = learned(base, folder, updates)
    winners = {f"learned, {3 * base.rounds} numbers": (tuned.experiment, cost)}
    # As many as the cost pays for: a halving takes half of a sweep, three fifths where
    # its rungs are but a round or two.
    share = 0.5 if base.rounds >= 10 else 0.6
    count = max(int(cost / (share * base.rounds * SEEDS)), 4)
    for family, points in families(base.rounds, count, base.seed).items():
        out = folder / family.replace(", ", "_").replace(" ", "_")
        found = fm.search(base, points, seeds=SEEDS, budget=cost, metric=GOAL, out=out)
        assert found.complete, "interrupted"
        winners[family] = found.winner, int(found.spent()["rounds"])
        print(name, family, len(points), "points", flush=True)
    again = {"seed": FIRST_FRESH, "eval_every": 1}
    frames = {
        way: dataclasses.replace(one, **again).run(fresh, progress=False).frame
        for way, (one, _) in winners.items()
    }
    return rows_of(name, frames, {way: cost for way, (_, cost) in winners.items()})


def rows_of(name: str, frames: dict[str, pd.DataFrame], costs: dict) -> list[dict]:
    """A row per way; differences and rounds are against the best family."""
    ends = {
        way: frame.groupby("seed")["test_accuracy"].last()
        for way, frame in frames.items()
    }
    best = max(list(frames)[1:], key=lambda way: ends[way].mean())
    rows = []
    for way, frame in frames.items():
        curve = frame.groupby("round")["test_accuracy"].mean()
        reached = curve.index[curve >= ends[best].mean()]
        test = stats.ttest_rel(ends[way], ends[best])
        rows.append(
            {
                "setting": name,
                "schedule": way,
                "cost, rounds": costs[way],
                "test accuracy, %": 100 * ends[way].mean(),
                "std": 100 * ends[way].std(),
                "against the best family": 100 * (ends[way] - ends[best]).mean(),
                "paired p": test.pvalue if way != best else np.nan,
                GOAL: frame.groupby("seed")[GOAL].last().mean(),
                "rounds to the best family's": reached[0] if len(reached) else np.nan,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", choices=SETTINGS, help="this setting alone")
    parser.add_argument("--tiny", action="store_true", help="does the script run?")
    told = parser.parse_args()
    fm.use_all_cores()
    if told.tiny:
        fields = {"dataset": "digits", "model": "logistic", "rounds": 4}
        print(pd.DataFrame(study("tiny", fields, 3, 2)).to_string())
        return
    rows = []
    for name, fields in SETTINGS.items():
        if told.only in (None, name):
            rows += study(name, fields | {"rounds": told.rounds}, UPDATES, FRESH)
            print(pd.DataFrame(rows).to_string(), flush=True)
    if told.only:
        return
    text = pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format)
    (RESULTS / f"schedules_{told.rounds}.md").write_text(
        "# Learned schedules against searched ones\n\n"
        f"FedAvgM, {told.rounds} rounds, the first {IMAGES:,} training images; means "
        f"of {FRESH} fresh seeds; chosen with {SEEDS} others by the loss on held-out "
        f"examples. jax {jax.__version__}, {jax.default_backend()}. Repeat with "
        f"`python benchmarks/schedules.py --rounds {told.rounds}`.\n\n"
        f"```\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
