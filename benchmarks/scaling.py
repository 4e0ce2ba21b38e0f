"""How the cost of a round grows.

    python benchmarks/scaling.py [clients cohort steps sweep width]

Against the number of clients (at equal cohort), the cohort, the local steps, 32
configurations swept, and the width of the model. Each table is measured in one run; the
ratio is to its first row, for a sweep also divided by the configurations.
"""

import argparse
import resource

import jax
import jax.numpy as jnp
import numpy as np
import ours
from measure import report, seconds
from ours import Ready
from workloads import WORKLOADS

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.backends.auto import backend_named
from fedjax_mos.lab.sweeps.lanes import fits, spread_out

REPEATS = 5
FEATURES, EXAMPLES, ROUNDS = 16, 20, 20


def logistic(clients: int, cohort: int = 100) -> tuple[list[float], int]:
    """Rounds of FedAvg on `clients` clients of 20 small examples, stored as bytes."""
    count = clients * EXAMPLES
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (count, FEATURES), np.uint8)
    y = rng.integers(0, 10, count, np.uint8)
    parts = fm.partitions.Partition(np.arange(count), np.full(clients, EXAMPLES))
    data, key = fm.federate(x, y, parts), jax.random.key(0)
    net = models.logistic()
    params = models.init(net, key, jnp.zeros((1, FEATURES)))

    def logits(params, x, key):
        return models.apply(net, params, x.astype(jnp.float32) / 255, key)

    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg, lr=0.1),
        fm.local_work(fm.losses.mean_loss(logits), fm.plans.with_replacement(10, 10)),
        fm.spec(fm.samplers.adaptive),
        cohort=cohort,
        backend=backend_named("auto", params, cohort),
    )
    data, state = sim.backend.place(data, sim.init(params, data, key), False)
    block = jax.jit(lambda data, state: fm.rollout(sim, data, state, key, ROUNDS)[0])
    times = seconds(lambda: jax.block_until_ready(block(data, state)), REPEATS)
    stored = sum(leaf.nbytes for leaf in jax.tree.leaves(data))
    return [t / ROUNDS for t in times], stored


class Swept:
    """Rounds of many configurations (learning rates), in the pieces of `fm.sweep`."""

    def __init__(self, name: str, configurations: int):
        work = WORKLOADS[name]
        data, params = ours.federated(work), ours.starting(work.model)
        key = jax.random.key(0)
        plain = ours.simulation(work, backend="vmapped")
        alone = jax.eval_shape(lambda: plain.init(params, data, key))
        width = spread_out(configurations, fits(alone, work.cohort))
        sim = ours.simulation(work, lanes=width)
        rounds = max(work.rounds // 4, 1)

        def start(lr):
            return sim.init(params, data, key, {"algorithm": {"lr": lr}})

        def simulate(data, lane):
            return fm.rollout(sim, data, *lane, rounds)[0].server.params

        # The last piece is filled up, as `fm.sweep` does.
        rates = work.lr * jnp.linspace(0.5, 1.5, configurations)
        rates = jnp.pad(rates, (0, -configurations % width), mode="edge")
        keys = jnp.broadcast_to(key, width)
        self.rounds, self.pieces = rounds, []
        for part in rates.reshape(-1, width):
            lanes = (jax.vmap(start)(part), keys)
            self.data, lanes = sim.backend.place(data, lanes, True)
            self.pieces.append(lanes)
        self.block = jax.jit(
            lambda data, lanes: sim.backend.many(simulate, data, lanes)
        )

    def run(self) -> None:
        for lanes in self.pieces:
            jax.block_until_ready(self.block(self.data, lanes))


def alone_and_swept(name: str, configurations: int) -> tuple[list[float], list[float]]:
    """Seconds per round of one run and of a sweep, interleaved."""
    single, many = ours.ready(name), Swept(name, configurations)
    single.rounds()
    many.run()
    one: list[float] = []
    all_of_them: list[float] = []
    for _ in range(REPEATS):
        one += seconds(single.rounds, 1, warmup=0)
        all_of_them += seconds(many.run, 1, warmup=0)
    return [t / single.work.rounds for t in one], [t / many.rounds for t in all_of_them]


def measured(ready: Ready) -> list[float]:
    times = seconds(ready.rounds, REPEATS)
    return [t / ready.work.rounds for t in times]


def main() -> None:
    tables = ("clients", "cohort", "steps", "sweep", "width")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=tables)
    chosen = parser.parse_args().tables
    fm.use_all_cores()
    w3, w5 = WORKLOADS["W3"], WORKLOADS["W5"]
    lines: list[tuple[str, str, dict]] = []

    def add(table: str, row: str, times: list[float], **more: float) -> None:
        lines.append((table, row, report(f"{table} {row}", times, **more)))

    if "clients" in chosen:
        for clients in (1_000, 10_000, 100_000, 1_000_000):
            times, stored = logistic(clients)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            size = {"stored_mb": round(stored / 2**20), "peak_mb": round(peak)}
            add("clients", f"{clients:,}", times, **size)
    if "cohort" in chosen:
        for cohort in (25, 50, 100, 200, 400):
            add("cohort", str(cohort), measured(Ready(w3._replace(cohort=cohort))))
    if "steps" in chosen:
        for steps in (5, 10, 20, 40):
            add("steps", str(steps), measured(Ready(w5._replace(steps=steps))))
    if "sweep" in chosen:
        for name in ("W5", "W3", "W1"):
            alone, times = alone_and_swept(name, 32)
            add(f"sweep {name}", "single run", alone)
            each = {"each": sorted(times)[len(times) // 2] / 32}
            add(f"sweep {name}", "32 swept", times, **each)
    if "width" in chosen:
        for hidden in (64, 128, 256, 512, 1024):
            ours.MODELS["small"] = models.mlp(hidden=(hidden,))
            ours.workloads.SHAPES["small"] = [(64, hidden), (hidden, 10)]
            add("width", str(hidden), measured(Ready(w5)))
    first: dict[str, float] = {}
    print()
    for table, row, line in lines:
        base = first.setdefault(table, line["seconds"])
        each = f"{line['each'] / base:>10.2f} each" if "each" in line else ""
        ratio = line["seconds"] / base
        print(f"{table:<10}{row:>12}{line['seconds']:>12.4g} s{ratio:>10.2f}{each}")


if __name__ == "__main__":
    main()
