"""What `accelerators.py` compiles: blocks of rounds and local steps, by shapes."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import compilers
import jax
import jax.numpy as jnp
import numpy as np
from compilers import PLATFORM, P, mesh_of
from workloads import WORKLOADS, Workload

import fedjax_mos as fm
from fedjax_mos import models
from fedjax_mos.engine.block import block_of
from fedjax_mos.target import traced_for
from fedjax_mos.tree import bytes_of
from fedjax_mos.types import FederatedData, RoundState

# Name -> model, shape of an example, and the work of a round.
MODELS: dict[str, tuple[Any, tuple[int, ...], Workload]] = {
    "W1": (models.cnn(), (28, 28, 1), WORKLOADS["W1"]),
    "W2": (models.mlp(hidden=(200,)), (784,), WORKLOADS["W2"]),
    "W3": (models.logistic(), (784,), WORKLOADS["W3"]),
    "W5": (models.mlp(hidden=(64,)), (64,), WORKLOADS["W5"]),
    "CIFAR": (
        models.fedmos_cifar_cnn3(),
        (32, 32, 3),
        Workload("cifar", 100, 500, 500, 25, 50, 10, 1),
    ),
    "ResNet": (
        models.resnet18(),
        (32, 32, 3),
        Workload("resnet", 100, 500, 500, 10, 10, 10, 1),
    ),
}
CLIENTS, COHORT = 2048, 256  # of the blocks of algorithms: a slot for every chip


class Structure(NamedTuple):
    """A jitted function, its arguments' shapes, a machine and where they lie on it."""

    function: Callable
    args: tuple
    mesh: Any
    specs: Any
    state: int = 0  # bytes of the server's model and a chip's rows: to be donated
    rows: int = 0  # bytes of one copy of the model for every client

    def compiled(self) -> Any:
        return compilers.compiled(self.function, self.args, self.mesh, self.specs)


def algorithm(name: str, machine: str) -> Structure:
    """A block of rounds, with evaluations, of a catalog algorithm on a small MLP."""
    rng = np.random.default_rng(0)
    x = rng.random((4 * CLIENTS, 64), np.float32)
    y = rng.integers(0, 10, len(x))
    mesh = mesh_of(machine)
    several = mesh.devices.size > 1
    made = fm.Experiment(
        dataset=fm.arrays(x, y, x[:64], y[:64]),
        partition="iid",
        model=models.mlp(hidden=(64,)),
        algorithm=name,
        sampler="ucs",
        clients=CLIENTS,
        cohort=COHORT,
        steps=3,
        batch_size=4,
        backend=fm.backends.sharded(mesh) if several else "auto",
    ).build(platform=PLATFORM[machine])
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    function, args = made.block(state, key)
    model = bytes_of(state.server.params)
    own = model + bytes_of(state.clients) // mesh.devices.size
    return Structure(function, args, mesh, placed(args, several), own, CLIENTS * model)


def block(name: str, lanes: int, machine: str, method: str = "fedavg") -> Structure:
    """A block of rounds of a workload, without evaluations."""
    model, shape, work = MODELS[name]
    platform = PLATFORM[machine]

    def apply(params: Any, x: jax.Array, key: jax.Array | None) -> jax.Array:
        return models.apply(model, params, x, key)

    sim = fm.simulation(
        fm.spec(getattr(fm.algorithms, method), lr=work.lr),
        fm.local_work(
            fm.losses.mean_loss(apply),
            fm.plans.with_replacement(work.steps, work.batch),
        ),
        fm.spec(fm.samplers.uniform, weights="share"),
        cohort=work.cohort,
        backend=fm.backends.vmapped(),
    )
    step = traced_for(platform, sim.step)
    sim = dataclasses.replace(sim, step=step, platform=platform)
    data = store(work, shape)

    def start(key: jax.Array, data: FederatedData) -> RoundState:
        return sim.init(parameters(model, shape, key), data, key)

    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(start, key, data)
    if lanes > 1:
        state, key = jax.tree.map(lambda a: stacked(a, lanes), (state, key))
    function, args = block_of(sim, data, state, key)
    return Structure(function, args, mesh_of(machine), P())


def local_step(name: str, lanes: int, machine: str) -> Structure:
    """One step of SGD of all clients of a cohort, in every lane."""
    model, shape, work = MODELS[name]
    slots = lanes * work.cohort

    def one(params: Any, x: jax.Array, y: jax.Array, key: jax.Array) -> Any:
        def loss(params: Any) -> jax.Array:
            logits = models.apply(model, params, x, key)
            return fm.losses.cross_entropy(logits, y).mean()

        return jax.tree.map(
            lambda p, g: p - work.lr * g, params, jax.grad(loss)(params)
        )

    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(lambda key: parameters(model, shape, key), key)
    x = jax.ShapeDtypeStruct((work.batch, *shape), jnp.float32)
    y = jax.ShapeDtypeStruct((work.batch,), jnp.int32)
    args = jax.tree.map(lambda a: stacked(a, slots), (params, x, y, key))
    function = jax.jit(traced_for(PLATFORM[machine], jax.vmap(one)), donate_argnums=0)
    return Structure(function, args, mesh_of(machine), P())


def parameters(model: Any, shape: tuple[int, ...], key: jax.Array) -> Any:
    return models.init(model, key, jnp.zeros((1, *shape)))


def stacked(leaf: Any, count: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype)


def store(work: Workload, shape: tuple[int, ...]) -> FederatedData:
    """Shapes of the examples of a population, as many as its largest clients have."""
    count = work.clients * work.largest
    each = jax.ShapeDtypeStruct((work.clients,), jnp.int32)
    return FederatedData(
        x=jax.ShapeDtypeStruct((count, *shape), jnp.float32),
        y=jax.ShapeDtypeStruct((count,), jnp.int32),
        order=jax.ShapeDtypeStruct((count,), jnp.int32),
        offset=each,
        size=each,
        largest=work.largest,
    )


def placed(args: tuple, several: bool) -> Any:
    """Clients' rows in parts, one for each chip; the rest everywhere."""

    def spec(part: Any) -> Any:
        if not several or not isinstance(part, RoundState):
            return P()
        everywhere = dict.fromkeys(part._fields, P())
        return part._replace(**everywhere | {"clients": P("clients")})

    return tuple(map(spec, args))
