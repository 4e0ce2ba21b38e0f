"""The workloads as fedjax_mos runs them."""

import jax
import jax.numpy as jnp
import numpy as np
import workloads
from workloads import WORKLOADS, Workload

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.backends.auto import backend_named
from fedjax_mos.types import FederatedData, Params, Simulation

MODELS = {
    "cnn": models.cnn(),
    "dropout_cnn": models.fedmos_mnist_cnn(),
    "mlp": models.mlp(hidden=(200,)),
    "logistic": models.logistic(),
    "small": models.mlp(hidden=(64,)),
}
NUMBERS = {
    "fedavg": {"server_lr": 1.0},
    "fedmos": {"storm": 0.1, "prox": 0.001, "server_momentum": 0.8},
}


def federated(work: Workload) -> FederatedData:
    """The population in our layout."""
    x, y, ends = workloads.population(work)
    image = len(workloads.SHAPES[work.model][0]) == 4
    shape = (28, 28, 1) if image else (-1,)
    parts = fm.partitions.Partition(np.arange(len(x)), np.diff(ends))
    return fm.federate(x.reshape(len(x), *shape), y, parts)


def starting(model: str) -> Params:
    """The common initial weights as our parameter tree."""
    kernel = workloads.SHAPES[model][0]
    shape = (1, 28, 28, 1) if len(kernel) == 4 else (1, kernel[0])
    tree = models.init(MODELS[model], jax.random.key(0), jnp.zeros(shape))
    # Bias comes before kernel in our trees.
    flat = [leaf for layer in workloads.weights(model) for leaf in layer[::-1]]
    return jax.tree.unflatten(jax.tree.structure(tree), flat)


def simulation(
    work: Workload, method: str = "fedavg", backend: str = "auto", lanes: int = 1
) -> Simulation:
    """One round of `method` on `work`, clients weighted by their examples."""
    model = MODELS[work.model]

    def logits(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        return models.apply(model, params, x, key)

    if work.epochs:
        plan = fm.plans.epochs(work.epochs, work.batch)
    else:
        plan = fm.plans.with_replacement(work.steps, work.batch)
    factory = getattr(fm.algorithms, method)
    return fm.simulation(
        fm.spec(factory, lr=work.lr, **NUMBERS[method]),
        fm.local_work(fm.losses.mean_loss(logits), plan),
        fm.spec(fm.samplers.uniform, weights="share"),
        cohort=work.cohort,
        backend=backend_named(
            backend, starting(work.model), work.cohort, lanes, 1 / work.active
        ),
    )


class Ready:
    """A compiled block of rounds with its data and state."""

    def __init__(self, work: Workload, method: str = "fedavg", backend: str = "auto"):
        self.work = work
        self.sim = simulation(work, method, backend)
        key = jax.random.key(0)
        data = federated(work)
        state = self.sim.init(starting(work.model), data, key)
        self.data, (self.state, self.key) = self.sim.backend.place(
            data, (state, key), False
        )

        def block(data, state, key):
            return fm.rollout(self.sim, data, state, key, work.rounds)[0]

        self.block = jax.jit(block, donate_argnums=1)

    def rounds(self) -> None:
        """`work.rounds` rounds, waited for."""
        self.state = self.block(self.data, self.state, self.key)
        jax.block_until_ready(self.state)

    def loss(self) -> float:
        """The check that the work was done."""
        x, y, _ = workloads.population(self.work)
        params = jax.device_get(self.state.server.params)
        inputs = jnp.asarray(x[:1000].reshape(-1, *self.data.x.shape[1:]))
        logits = models.apply(MODELS[self.work.model], params, inputs)
        return workloads.loss(logits, y[:1000])


def ready(name: str, method: str = "fedavg", backend: str = "auto") -> Ready:
    """Workload `name`, compiled at its first round."""
    return Ready(WORKLOADS[name], method, backend)
