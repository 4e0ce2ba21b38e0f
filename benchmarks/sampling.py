"""What choosing costs: ACS among a million clients against the round it serves.

    python benchmarks/sampling.py

N = 1,000,000 clients, M = 1,000 of them a round, 10 local steps of logistic regression
each. Times ten draws and ten whole rounds, compiled scans as in `run`, interleaved.
Prints one JSON line: seconds of one, median and fastest, and their ratio.
"""

import dataclasses
import json
import os
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import fedjax_mos as fm


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    clients: int = 1_000_000
    cohort: int = 1_000
    steps: int = 10
    batch_size: int = 10
    features: int = 60
    classes: int = 10
    rounds: int = 10
    repeats: int = 9


def population(settings: Settings) -> fm.types.FederatedData:
    """Clients of 10 to 50 examples each, drawn from one small store."""
    rng = np.random.default_rng(0)
    store = 10_000
    x = rng.normal(size=(store, settings.features)).astype(np.float32)
    y = rng.integers(0, settings.classes, store)
    sizes = rng.integers(10, 51, settings.clients)
    owned = rng.integers(0, store, sizes.sum())
    return fm.federate(x, y, fm.partitions.Partition(owned, sizes))


def main(settings: Settings) -> None:
    data = population(settings)
    shape = (settings.features, settings.classes)
    params = {"w": jnp.zeros(shape), "b": jnp.zeros(settings.classes)}
    loss = fm.losses.mean_loss(lambda p, x, key: x @ p["w"] + p["b"])
    plan = fm.plans.with_replacement(settings.steps, settings.batch_size)
    sampler = fm.samplers.adaptive(fm.types.SamplerTools(settings.cohort, loss))
    method = fm.spec(fm.algorithms.fedavg, lr=0.1)
    sim = fm.simulation(method, fm.local_work(loss, plan), sampler)
    start = time.perf_counter()
    state = jax.block_until_ready(sim.init(params, data, jax.random.key(0)))
    setup = time.perf_counter() - start

    def choose(data, state, key):
        def one(carry, key):
            view = fm.types.SamplerView(state.round, state.server, data)
            cohort, carry = sampler.sample(carry, view, key)
            return carry, cohort

        keys = jax.random.split(key, settings.rounds)
        return jax.lax.scan(one, state.sampler, keys)[1]

    def train(data, state, key):
        return fm.rollout(sim, data, state, key, settings.rounds)[0].server

    work = {"sampling": jax.jit(choose), "round": jax.jit(train)}
    times: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(settings.repeats + 1):  # the first one compiles
        for name, call in work.items():
            key = jax.random.key(repeat)
            start = time.perf_counter()
            jax.block_until_ready(call(data, state, key))
            times[name].append((time.perf_counter() - start) / settings.rounds)
    seconds = {
        form: {name: float(best(t[1:])) for name, t in times.items()}
        for form, best in (("median", statistics.median), ("fastest", min))
    }
    print(
        json.dumps(
            dataclasses.asdict(settings)
            | {
                form: {name: round(t, 6) for name, t in of.items()}
                | {"ratio": round(of["sampling"] / of["round"], 5)}
                for form, of in seconds.items()
            }
            | {"setup_seconds": round(setup, 3)}
            | {"load": round(os.getloadavg()[0], 2), "jax": jax.__version__}
            | {"platform": jax.default_backend()}
        )
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
