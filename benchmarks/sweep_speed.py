"""A sweep against the same runs one after another, in one process.

    python benchmarks/sweep_speed.py [--rates 10] [--seeds 5] [--rounds 100]

FedMoS on `digits`. The sequential side builds the problem once and runs one compiled
program with other numbers and seeds; `rebuilt` is what a loop over `Experiment.run`
costs, which compiles every time (measured on two runs). Prints a table and one line of
JSON with versions and the machine's load. Seconds are wall time; trust ratios, and
those only on an idle machine.
"""

import argparse
import dataclasses
import importlib
import json
import os
import time
from importlib.metadata import version

import jax
import numpy as np

import fedjax_mos as fm

# Programs kept on disk by earlier calls would flatter one side.
jax.config.update("jax_enable_compilation_cache", False)
compiled = importlib.import_module("fedjax_mos.run")._compiled


def timed(work):
    """Seconds, and programs of rounds that were compiled meanwhile."""
    before, begin = compiled._cache_size(), time.perf_counter()
    work()
    return time.perf_counter() - begin, compiled._cache_size() - before


def one_by_one(experiment, rates, seeds):
    """All runs with one program, built once."""
    problem = experiment.build()
    for rate in rates:
        for seed in range(seeds):
            hp = {"algorithm": {"lr": float(rate)}}
            state, key = problem.start(jax.random.key(seed), hp)
            fm.run(
                problem.sim,
                problem.data,
                state,
                key,
                experiment.rounds,
                evaluate=problem.evaluate,
                stores=problem.stores,
                progress=False,
            )


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
    load = os.getloadavg()[0]
    experiment = fm.Experiment(rounds=given.rounds)
    experiment.build()  # both sides find the data loaded
    rates = np.geomspace(0.03, 0.6, given.rates)
    runs = given.rates * given.seeds
    options = {"lr": rates, "seeds": given.seeds, "progress": False}
    seconds = {
        "sweep": timed(lambda: fm.sweep(experiment, **options)),
        "one by one": timed(lambda: one_by_one(experiment, rates, given.seeds)),
    }
    twice, programs = timed(lambda: rebuilt(experiment, rates))
    seconds["rebuilt (estimate)"] = twice / 2 * runs, programs // 2 * runs
    own = seconds["sweep"][0]
    print(
        f"{runs} runs of {given.rounds} rounds  seconds  programs  sweep is faster by"
    )
    for name, (spent, programs) in seconds.items():
        print(f"{name:<27}  {spent:7.1f}  {programs:8}  {spent / own:18.1f}")
    record = {
        "runs": runs,
        "rounds": given.rounds,
        "seconds": {name: round(spent, 2) for name, (spent, _) in seconds.items()},
        "programs": {name: programs for name, (_, programs) in seconds.items()},
        "versions": {name: version(name) for name in ("fedjax_mos", "jax", "jaxlib")},
        "devices": f"{jax.device_count()} {jax.default_backend()}",
        "cores": os.cpu_count(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
