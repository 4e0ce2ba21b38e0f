"""FedJAX with its own federated averaging and samplers.

python fedjax_run.py W1 [rounds]
"""

import sys
import time

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
import workloads
from fedjax.algorithms import fed_avg
from measure import report


def logits(params, x):
    """Convolutions (with ReLU and pooling), then dense layers with ReLU between."""
    if params[0][0].ndim == 4:
        x = x.reshape(-1, 28, 28, 1)
    for i, (kernel, bias) in enumerate(params):
        if kernel.ndim == 4:
            numbers = ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "VALID", dimension_numbers=numbers
            )
            size = (1, 2, 2, 1)
            x = jax.lax.reduce_window(
                jax.nn.relu(x + bias), -jnp.inf, jax.lax.max, size, size, "VALID"
            )
        else:
            x = x.reshape(x.shape[0], -1) @ kernel + bias
            x = jax.nn.relu(x) if i < len(params) - 1 else x
    return x


def loss(params, batch, rng):
    scores = jax.nn.log_softmax(logits(params, batch["x"]))
    return -jnp.take_along_axis(scores, batch["y"][:, None], axis=1).mean()


def main(name: str, rounds: int) -> None:
    work = workloads.WORKLOADS[name]
    x, y, ends = workloads.population(work)
    y = y.astype(np.int32)
    cut = [slice(ends[i], ends[i + 1]) for i in range(work.clients)]
    data = fedjax.InMemoryFederatedData(
        {i: {"x": x[mine], "y": y[mine]} for i, mine in enumerate(cut)}
    )
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(work.lr),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(
            batch_size=work.batch, num_epochs=None, num_steps=work.steps, seed=None
        ),
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, work.cohort, seed=0)
    layers = [
        (jnp.asarray(k), jnp.asarray(b)) for k, b in workloads.weights(work.model)
    ]
    state, times = algorithm.init(layers), []
    for _ in range(rounds):
        began = time.perf_counter()
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        times.append(time.perf_counter() - began)
    check = workloads.loss(logits(state.params, x[:1000]), y[:1000])
    report(f"{name}-fedavg", times[2:], program="fedjax", loss=check)


if __name__ == "__main__":
    name, *rounds = sys.argv[1:]
    main(name, int(*rounds or [workloads.WORKLOADS[name].rounds]))
