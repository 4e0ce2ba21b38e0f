"""A sweep against the same runs one after another, in one process.

    python benchmarks/sweep_speed.py [--rates 10] [--seeds 5] [--rounds 100]

FedMoS on `digits`. The sequential side builds the problem once and runs one compiled
program with other numbers and seeds; `rebuilt` is what a loop over `Experiment.run`
costs, which compiles every time (measured on two runs). Prints a table and one line of
JSON with versions and the machine's load. Trust the ratio of wall seconds on an idle
machine only; that of CPU seconds suffers less.
"""

import argparse
import dataclasses
import json
import os
import time
from importlib.metadata import version

import jax
import numpy as np

import fedjax_mos as fm
from fedjax_mos.engine import block
from fedjax_mos.machine import use_all_cores

# Programs kept on disk by earlier calls would flatter one side.
jax.config.update("jax_enable_compilation_cache", False)


def programs():
    """Programs of rounds that are compiled."""
    return sum(run.jitted._cache_size() for run in block._PROGRAMS.things.values())


def timed(work):
    """Wall and CPU seconds, and programs of rounds that were compiled meanwhile."""
    before = programs(), time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": time.perf_counter() - before[1],
        "cpu": time.process_time() - before[2],
        "programs": programs() - before[0],
    }


def one_by_one(experiment, rates, seeds):
    """All runs with one program, built once."""
    made = experiment.build()
    for rate in rates:
        for seed in range(seeds):
            hp = {"algorithm": {"lr": float(rate)}}
            state, key = made.start(jax.random.key(seed), hp)
            made.run(state, key, experiment.rounds, progress=False)


def rebuilt(experiment, rates):
    """Two runs as experiments of their own."""
    for rate in rates[:2]:
        one = dataclasses.replace(experiment, options={"lr": float(rate)})
        one.run(progress=False)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("rates", 10), ("seeds", 5), ("rounds", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    use_all_cores()  # as the command line does: lanes are split over them
    load = os.getloadavg()[0]
    experiment = fm.Experiment(rounds=given.rounds)
    experiment.build()  # both sides find the data loaded
    rates = np.geomspace(0.03, 0.6, given.rates)
    runs = given.rates * given.seeds
    options = {"lr": rates, "seeds": given.seeds, "progress": False}
    spent = {
        "sweep": timed(lambda: fm.sweep(experiment, **options)),
        "one by one": timed(lambda: one_by_one(experiment, rates, given.seeds)),
    }
    two = timed(lambda: rebuilt(experiment, rates))
    spent["rebuilt (estimate)"] = {n: value / 2 * runs for n, value in two.items()}
    heading = f"{runs} runs of {given.rounds} rounds"
    print(f"{heading:<22}      seconds     ratio  CPU s  ratio  programs")
    for name, row in spent.items():
        ratios = [row[n] / spent["sweep"][n] for n in ("seconds", "cpu")]
        print(
            f"{name:<22} {row['seconds']:12.1f} {ratios[0]:9.1f} {row['cpu']:6.1f} "
            f"{ratios[1]:6.1f} {row['programs']:9.0f}"
        )
    record = {
        "runs": runs,
        "rounds": given.rounds,
        "spent": {
            name: {n: round(value, 2) for n, value in row.items()}
            for name, row in spent.items()
        },
        "versions": {name: version(name) for name in ("fedjax_mos", "jax", "jaxlib")},
        "devices": f"{jax.device_count()} {jax.default_backend()}",
        "cores": os.cpu_count(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
