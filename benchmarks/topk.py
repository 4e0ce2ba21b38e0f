"""Which exact top-k is fastest: 1/128 of a million coordinates, for 25 clients.

    python benchmarks/topk.py

The bisection of `channels.codecs` (k may be traced), a full sort, and `lax.top_k` (k
must be static), interleaved. Prints one JSON line: seconds, median and fastest.
"""

import dataclasses
import json
import os
import statistics
import time
from functools import partial

import jax
import jax.numpy as jnp
import tyro

from fedjax_mos.channels.codecs import largest


def by_sort(magnitude: jax.Array, k: int) -> jax.Array:
    """A mask of the k largest entries by a full sort of positions."""
    order = jnp.argsort(-magnitude, stable=True)
    return jnp.zeros(magnitude.size, bool).at[order[:k]].set(True)


def by_top_k(magnitude: jax.Array, k: int) -> jax.Array:
    """A mask of the k largest entries by `lax.top_k`."""
    _, index = jax.lax.top_k(magnitude, k)
    return jnp.zeros(magnitude.size, bool).at[index].set(True)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is measured."""

    coordinates: int = 1_000_000
    clients: int = 25
    fraction: float = 1 / 128
    repeats: int = 7


def main(settings: Settings) -> None:
    k = int(settings.fraction * settings.coordinates)
    shape = (settings.clients, settings.coordinates)
    values = jnp.abs(jax.random.normal(jax.random.key(0), shape))
    traced = jax.jit(jax.vmap(largest, (0, None)))
    methods = {
        "bisection": lambda v: traced(v, jnp.uint32(k)),
        "sort": jax.jit(jax.vmap(partial(by_sort, k=k))),
        "top_k": jax.jit(jax.vmap(partial(by_top_k, k=k))),
    }
    times: dict[str, list[float]] = {name: [] for name in methods}
    expected = methods["bisection"](values)
    for name, method in methods.items():  # compile, and agree
        assert bool((method(values) == expected).all()), name
    for _ in range(settings.repeats):
        for name, method in methods.items():
            start = time.perf_counter()
            jax.block_until_ready(method(values))
            times[name].append(time.perf_counter() - start)
    median = {name: round(statistics.median(t), 4) for name, t in times.items()}
    fastest = {name: round(min(t), 4) for name, t in times.items()}
    load = os.getloadavg()[0]
    print(
        json.dumps(
            dataclasses.asdict(settings)
            | {"k": k, "median": median, "fastest": fastest, "load": round(load, 2)}
            | {"jax": jax.__version__, "platform": jax.default_backend()}
        )
    )


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
