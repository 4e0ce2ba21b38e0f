"""How far a round is from what the machine can do.

    python benchmarks/roofline.py [W1 W2 W3]

Three times of the same run: the round; its arithmetic at the rate of a large matrix
product on all cores, interleaved with it; and, after those, the same number of example
gradients as one big batch with one weight vector, without clients. The big batch is no
lower bound for convolutions, whose patches then leave the cache.
"""

import argparse
import math
import statistics

import jax
import jax.numpy as jnp
import numpy as np
import workloads
from measure import report, seconds
from ours import MODELS, federated, ready, starting
from workloads import SHAPES, WORKLOADS, Workload

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.types import Batch

REPEATS = 5
SIDE = 2048


def rate() -> float:
    """Floating-point operations per second of a matrix product, split over devices."""
    devices = jax.devices()
    parts = [jax.device_put(jnp.ones((SIDE, SIDE)), device) for device in devices]
    product = jax.jit(lambda a: a @ a)

    def work() -> None:
        jax.block_until_ready([product(part) for part in parts])

    return len(devices) * 2 * SIDE**3 / min(seconds(work, REPEATS))


def operations(work: Workload) -> float:
    """Of one round: a product forward and two backward (one in the first layer)."""
    total, side = 0.0, 28
    for layer, shape in enumerate(SHAPES[work.model]):
        places = 1
        if len(shape) == 4:
            side -= shape[0] - 1
            places, side = side * side, side // 2
        total += 2 * math.prod(shape) * places * (2 if layer == 0 else 3)
    return total * work.cohort * work.steps * work.batch


def big_batch(work: Workload) -> list[float]:
    """Seconds of the round's example gradients at one weight vector, all at once."""
    data = federated(work)
    params = starting(work.model)
    model = MODELS[work.model]
    loss = fm.losses.mean_loss(lambda p, x, key: models.apply(model, p, x))
    count = work.cohort * work.steps * work.batch
    rows = np.random.default_rng(0).integers(0, len(data.y), count)
    # In blocks, one after another on every device, so that W2's fit the memory.
    devices, block = jax.device_count(), 5000
    blocks = -(-count // (devices * block))
    size = -(-count // (devices * blocks))
    rows = np.resize(rows, (devices, blocks, size))
    key = jax.random.key(0)

    @jax.jit
    def work_on(params, data, rows):
        def one(total, rows):
            batch = Batch(data.x[rows], data.y[rows], jnp.ones(rows.shape, bool))
            return jax.tree.map(
                jnp.add, total, jax.grad(loss)(params, batch, key)
            ), None

        zeros = jax.tree.map(jnp.zeros_like, params)
        return jax.lax.scan(one, zeros, rows)[0]

    given = [
        jax.device_put((params, data, jnp.asarray(part)), device)
        for part, device in zip(rows, jax.devices(), strict=True)
    ]
    return seconds(
        lambda: jax.block_until_ready([work_on(*args) for args in given]), REPEATS
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=["W1", "W2", "W3"])
    names = parser.parse_args().workloads
    fm.use_all_cores()
    table = []
    for name in names:
        work = WORKLOADS[name]
        ours = ready(name)
        ours.rounds()
        rounds, peak = [], []
        for _ in range(REPEATS):  # interleaved: the machine's rate wanders
            peak.append(rate())
            rounds += [t / work.rounds for t in seconds(ours.rounds, 1, warmup=0)]
        limit = operations(work) / statistics.median(peak)
        big = big_batch(work)
        middle = statistics.median(rounds)
        line = report(
            name,
            rounds,
            gflops=round(statistics.median(peak) / 1e9, 1),
            arithmetic=limit,
            times_arithmetic=round(middle / limit, 2),
            big_batch=statistics.median(big),
            times_big_batch=round(middle / statistics.median(big), 2),
        )
        table.append(line)
        workloads.population.cache_clear()
    head = ("round", "arithmetic", "ratio", "big batch", "ratio")
    print(f"\n{'':<6}" + "".join(f"{h:>12}" for h in head))
    for line in table:
        values = ("seconds", "arithmetic", "times_arithmetic")
        values += ("big_batch", "times_big_batch")
        print(f"{line['name']:<6}" + "".join(f"{line[v]:>12.4g}" for v in values))


if __name__ == "__main__":
    main()
