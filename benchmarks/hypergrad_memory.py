"""Memory of a gradient through 20 to 200 rounds, with and without segments.

    python benchmarks/hypergrad_memory.py

XLA's own count of temporary memory, FedMoS and SCAFFOLD on `digits`: SCAFFOLD keeps a
tree per client, so that a state is a hundred models. Nothing is run.
"""

import json

import jax
import jax.numpy as jnp

import fedjax_mos as fm
from fedjax_mos.lab.hypergradients.checkpointed_rollout import checkpointed_rollout
from fedjax_mos.lab.hypergradients.wrt import with_named

ROUNDS = (20, 200)


def megabytes(algorithm: str, rounds: int, segments: bool) -> float:
    made, named = with_named(fm.Experiment(algorithm=algorithm), ("lr",))

    def objective(named, data, stores, key):
        state, k_run = made.start(key, named)
        if segments:
            state, _ = checkpointed_rollout(made.sim, data, state, k_run, rounds)
        else:
            state, _ = fm.rollout(made.sim, data, state, k_run, rounds, remat=True)
        return made.evaluate(state, stores)["valid_loss"]

    named = jax.tree.map(jnp.asarray, named)
    arguments = (named, made.data, made.stores, jax.random.key(0))
    compiled = jax.jit(jax.grad(objective)).lower(*arguments).compile()
    return compiled.memory_analysis().temp_size_in_bytes / 2**20


def main() -> None:
    jax.config.update("jax_disable_most_optimizations", True)  # only sizes matter
    for algorithm in ("fedmos", "scaffold"):
        for segments in (False, True):
            sizes = [megabytes(algorithm, rounds, segments) for rounds in ROUNDS]
            row = dict(zip(ROUNDS, (round(size, 1) for size in sizes), strict=True))
            growth = round(sizes[1] / sizes[0], 2)
            head = {"algorithm": algorithm, "segments": segments}
            print(json.dumps(head | {"MiB": row, "growth": growth}), flush=True)


if __name__ == "__main__":
    main()
