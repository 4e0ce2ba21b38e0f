"""Tuning FedMoS by gradient against a sweep of 256 cells on `digits`.

    python benchmarks/tuning.py

Four numbers from a bad start, 50 rounds. Both choices are made on validation data; what
is reported are means of five seeds. Costs are rounds, a round of a gradient counted as
often as `hypergrad.runs` says, and seconds of the clock and of the processor, with
compilation and without the cache of earlier runs. Writes benchmarks/results/tuning.md,
and tuning.png, where the trajectory is plotted against a random sweep of the same cost.
"""

import json
import time
from pathlib import Path

import jax
import pandas as pd

import fedjax_mos as fm

ROUNDS, SEEDS, UPDATES, TUNING_SEEDS = 50, 5, 25, 2
RESULTS = Path(__file__).parent / "results"
START = {"lr": 0.001, "storm": 0.1, "prox": 0.5, "server_momentum": 0.1}
GRID = {
    "lr": [0.03, 0.1, 0.3, 0.6],
    "storm": [0.1, 0.4, 0.7, 0.95],
    "prox": [0.001, 0.01, 0.05, 0.2],
    "server_momentum": [0.0, 0.4, 0.7, 0.9],
}
SECONDS = ("seconds", "processor seconds")
METRICS = ["valid_loss", "valid_accuracy", "test_accuracy"]


def outcome(experiment: fm.Experiment) -> dict[str, float]:
    """Means over the seeds after the last round."""
    history = experiment.run(SEEDS, progress=False).frame
    return history[history["round"] == ROUNDS][METRICS].mean().to_dict()


def timed(work, rounds) -> tuple:
    """What `work` returns, and what it took."""
    clock, processor = time.perf_counter(), time.process_time()
    done = work()
    seconds = time.perf_counter() - clock, time.process_time() - processor
    return done, {"rounds": rounds(done)} | dict(zip(SECONDS, seconds, strict=True))


def main() -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    start = fm.Experiment(rounds=ROUNDS, eval_every=ROUNDS, options=START)
    rows = {"start": START | outcome(start)}

    tuned, spent = timed(
        lambda: fm.tune(start, updates=UPDATES, seeds=TUNING_SEEDS, progress=False),
        lambda tuned: int(tuned.frame["cost"].iloc[-1]),
    )
    numbers = {name: float(value) for name, value in tuned.hp.items()}
    rows["tuned by gradient"] = numbers | outcome(tuned.experiment) | spent
    print(tuned.frame.to_string(), flush=True)

    cube, spent = timed(
        lambda: fm.sweep(start, seeds=SEEDS, progress=False, **GRID),
        lambda cube: len(cube.frame),
    )
    cells = cube.frame["configuration"].nunique()
    for metric in ("valid_loss", "valid_accuracy"):
        best = {name: cube.best(metric)[name] for name in GRID}
        chosen = fm.Experiment(rounds=ROUNDS, eval_every=ROUNDS, options=best)
        rows[f"best of {cells} by {metric}"] = best | outcome(chosen) | spent

    random, spent = timed(
        lambda: fm.random_baseline(
            start, START, tuned, seeds=TUNING_SEEDS, progress=False
        ),
        lambda random: len(random.frame),
    )
    tuned.trajectory(random).savefig(RESULTS / "tuning.png", dpi=100)
    best = {name: random.best("valid_loss")[name] for name in START}
    chosen = fm.Experiment(rounds=ROUNDS, eval_every=ROUNDS, options=best)
    rows["random sweep of the same cost"] = best | outcome(chosen) | spent
    write(pd.DataFrame(rows).T)


def write(table: pd.DataFrame) -> None:
    text = table.to_string(float_format=lambda v: f"{v:.4g}")
    print(text)
    print(json.dumps(table.T.to_dict()))
    (RESULTS / "tuning.md").write_text(
        "# Tuning FedMoS's four numbers on `digits`\n\n"
        f"{ROUNDS} rounds; outcomes are means of {SEEDS} seeds. The tuning takes "
        f"{UPDATES} updates with {TUNING_SEEDS} seeds. Seconds are of a shared machine "
        f"with two cores; jax {jax.__version__}, {jax.default_backend()}. Repeat with "
        f"`python benchmarks/tuning.py`.\n\n```\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
