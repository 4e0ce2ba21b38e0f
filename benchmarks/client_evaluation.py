"""What it costs to measure every client, against one evaluation of as many examples.

    python benchmarks/client_evaluation.py

500 clients with 60,000 examples of MNIST's shape (noise: the cost is the same), with
logistic regression, where everything but the model weighs most, and with the CNN.
Ratios of medians of interleaved calls; `statistics` included.
"""

import statistics as st
import time

import jax
import numpy as np

import fedjax_mos as fm
from fedjax_mos.client.losses import measures
from fedjax_mos.engine.evaluation import evaluator, per_client
from fedjax_mos.lab.client_statistics import statistics

REPEATS = 9
CLIENTS, EXAMPLES = 500, 60_000


def ratio(model: str) -> tuple[float, float]:
    """Seconds of a central evaluation, and of one client by client."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (EXAMPLES, 28, 28, 1), np.uint8)
    y = rng.integers(0, 10, EXAMPLES)
    train = fm.federate(x, y, fm.partitions.iid(y, CLIENTS, seed=0))
    experiment = fm.Experiment(
        dataset={"train": train}, model=model, algorithm="fedavg", sampler="ucs"
    )
    made = experiment.build()
    state, _ = made.start(jax.random.key(0))
    measure = measures(made.apply)
    stores, state = made.sim.backend.place(made.stores, state, False)
    central = jax.jit(evaluator(measure, backend=made.sim.backend))
    each = per_client(measure, backend=made.sim.backend)

    @jax.jit
    def clients(state, stores):
        found = each(state.server.params, stores["train"])
        return {name: statistics(v, falls=False) for name, v in found.items()}

    times: dict[str, list[float]] = {"central": [], "clients": []}
    for repeat in range(REPEATS + 1):
        for name, call in (("central", central), ("clients", clients)):
            begin = time.perf_counter()
            jax.block_until_ready(call(state, stores))
            if repeat:
                times[name].append(time.perf_counter() - begin)
    return st.median(times["central"]), st.median(times["clients"])


def main() -> None:
    fm.use_all_cores()
    for model in ("logistic", "fedmos_mnist_cnn"):
        central, clients = ratio(model)
        print(
            f"{model}: {1e3 * central:.1f} ms central, {1e3 * clients:.1f} ms client "
            f"by client, ratio {clients / central:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
