"""Our own seconds per round and examples per second.

    python benchmarks/speed.py                 every workload, as a table
    python benchmarks/speed.py W1 [fedmos]     one of them, one JSON line

W1 to W6 are those of workloads.py; `cifar` is FedMoS's CIFAR experiment (500 clients,
25 per round, batch 10, 5 steps, evaluated on 10,000 images after every round), `resnet`
ResNet-18 with GroupNorm on 32x32x3 (2 clients, 1 step of batch 10), both on noise of
the right shape.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
from measure import report, seconds
from ours import ready
from workloads import WORKLOADS

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.backends.auto import backend_named

REPEATS = 5


def workload(name: str, method: str, backend: str) -> dict:
    """Seconds per round of one workload, data in place and program compiled."""
    began = time.perf_counter()
    work = ready(name, method, backend)
    work.rounds()
    startup = time.perf_counter() - began
    loss = work.loss()  # after as many rounds as the peers do
    times = [t / work.work.rounds for t in seconds(work.rounds, REPEATS, warmup=0)]
    return report(
        f"{name}-{method}",
        times,
        program="fedjax_mos",
        examples_per_second=round(work.work.examples / min(times)),
        active=round(work.work.active, 3),
        waiting=round(work.work.waiting(jax.device_count()), 3),
        startup=round(startup, 2),
        loss=loss,
        devices=jax.device_count(),
    )


def images(name: str, model, cohort: int, steps: int, clients: int, tests: int) -> dict:
    """A round (with an evaluation on `tests` images) of FedMoS on images of noise."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (100 * clients, 32, 32, 3), np.uint8)
    y = rng.integers(0, 10, len(x))
    data = fm.federate(x, y, fm.partitions.iid(y, clients, seed=0))
    stores = {"test": fm.federate(x[:tests], y[:tests])} if tests else {}
    params = models.init(model, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))

    def logits(params, x, key):
        return models.apply(model, params, x.astype(jnp.float32) / 255 - 0.5, key)

    sim = fm.simulation(
        fm.spec(fm.algorithms.fedmos),
        fm.local_work(
            fm.losses.mean_loss(logits), fm.plans.with_replacement(steps, 10)
        ),
        fm.spec(fm.samplers.adaptive),
        cohort=cohort,
        backend=backend_named("auto", params, cohort),
    )
    key = jax.random.key(0)
    state = sim.init(params, data, key)
    (data, stores), state = sim.backend.place((data, stores), state, False)
    evaluate = None
    if tests:
        evaluate = fm.evaluator(fm.losses.measures(logits), backend=sim.backend)

    @jax.jit
    def one(data, stores, state, key):
        return fm.rollout(sim, data, state, key, 1, evaluate=evaluate, stores=stores)

    began = time.perf_counter()
    jax.block_until_ready(one(data, stores, state, key))
    startup = round(time.perf_counter() - began, 2)
    times = seconds(
        lambda: jax.block_until_ready(one(data, stores, state, key)), 3, warmup=0
    )
    return report(name, times, startup=startup, parameters=models.count(params))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="?", choices=[*WORKLOADS, "cifar", "resnet"])
    parser.add_argument("method", nargs="?", default="fedavg")
    parser.add_argument("--backend", default="auto")
    args = parser.parse_args()
    fm.use_all_cores()
    chosen = [args.workload] if args.workload else [*WORKLOADS, "cifar", "resnet"]
    lines = []
    for name in chosen:
        if name == "cifar":
            net = models.fedmos_cifar_cnn3()
            line = images(name, net, cohort=25, steps=5, clients=500, tests=10_000)
        elif name == "resnet":
            net = models.resnet18()
            line = images(name, net, cohort=2, steps=1, clients=10, tests=0)
        else:
            line = workload(name, args.method, args.backend)
        lines.append(line)
    if not args.workload:
        print(f"\n{'workload':<20}{'seconds':>10}{'fastest':>10}{'start-up':>10}")
        for line in lines:
            print(
                f"{line['name']:<20}{line['seconds']:>10.4g}{line['fastest']:>10.4g}"
                f"{line['startup']:>10.4g}"
            )


if __name__ == "__main__":
    main()
