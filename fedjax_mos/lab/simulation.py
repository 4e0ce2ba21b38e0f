"""An experiment's simulation: local work, sampler, channels and layout."""

import dataclasses
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_mos.backends.auto import backend_named
from fedjax_mos.client.losses import PerExample, mean_loss
from fedjax_mos.client.plans import epochs, with_replacement
from fedjax_mos.components import Spec, bound, then
from fedjax_mos.data import augment
from fedjax_mos.engine.simulation import simulation
from fedjax_mos.lab.network import Network
from fedjax_mos.lab.population import Population
from fedjax_mos.lab.structure import identity
from fedjax_mos.samplers import pools
from fedjax_mos.schedule import at_start
from fedjax_mos.target import traced_for
from fedjax_mos.types import (
    Backend,
    Batch,
    HostAssisted,
    LocalWork,
    Loss,
    MakePlan,
    SamplerTools,
    Simulation,
)

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

DEFAULT_STEPS = 5
_ABREAST = 8  # clients whose gradients are compiled to see what they need
_LINKS = ("uplink", "downlink", "broadcast", "decay")


def simulation_of(
    experiment: "Experiment",
    people: Population,
    network: Network,
    loss: PerExample,
    lanes: int,
    platform: str,
) -> Simulation:
    """The simulation of a population with a network; so many `lanes` will run."""
    plan, ragged = _plan(experiment, people)
    local = _local(experiment, network, loss, plan)
    tools = local.build(**at_start(local.hp))
    sampler, slots = _sampler(experiment, people, tools)
    decays = "round_decay" in experiment.parts["decay"].spec.hp
    method = experiment.parts["algorithm"].spec
    if decays and method.static.get("client_optimizer") is not None:
        raise ValueError(
            "round_decay is for the step size lr, which a client_optimizer replaces: "
            "give the optimizer a schedule of its own"
        )

    @cache
    def gradient() -> int:
        return _gradient_bytes(tools.loss, network, people, experiment.batch_size)

    def layout(slots: int) -> Backend:
        name = experiment.backend
        if not isinstance(name, str):
            return name
        model = network.shapes
        return backend_named(name, model, slots, lanes, ragged, platform, gradient)

    made = {kind: experiment.parts[kind].spec for kind in _LINKS}
    sim = simulation(
        method,
        local,
        sampler,
        cohort=experiment.cohort,
        backend=layout(slots),
        warm_up_backend=layout(people.clients),
        drop_nonfinite=experiment.drop_nonfinite,
        **made,
    )
    # The layout may depend on what the token only summarises.
    layouts = (layout(slots).name, layout(people.clients).name)
    known = identity(experiment, people.token, lanes, layouts, platform)

    def traced(sim: Simulation, identity: str | None) -> Simulation:
        handed = partial(traced_for, platform, precision=experiment.precision)
        init, step = handed(sim.init), handed(sim.step)
        sim = dataclasses.replace(sim, init=init, step=step)
        return dataclasses.replace(sim, identity=identity, platform=platform)

    if sim.warm_up is not None:
        first = traced(sim.warm_up, known and f"the warm-up of {known}")
        sim = dataclasses.replace(sim, warm_up=first)
    return traced(sim, known)


def _local(
    experiment: "Experiment", network: Network, loss: PerExample, plan: MakePlan
) -> Spec:
    """The tools of a client."""
    made = experiment.parts["local"].spec
    if "scale" in made.hp:  # one factor per parameter tensor, all alike at first
        factor = made.hp["scale"]
        if jax.tree_util.all_leaves([factor]):
            factor = jax.tree.map(lambda _: factor, network.shapes)
        made = Spec(made.factory, made.static, made.hp | {"scale": factor})
    change = _published_augmentation() if experiment.augment else None
    return bound(made, mean_loss(network.apply, loss), plan, network.forward, change)


def _gradient_bytes(
    loss: Loss, network: Network, people: Population, batch_size: int
) -> int:
    """What the compiler wants for a client's gradient: activations as it lays them out.

    Of eight clients at once, since one alone is laid out in another way. Where not even
    those fit it is more than any device has, so that clients go one by one.
    """
    params = jax.tree.map(partial(_stacked, (_ABREAST,)), network.shapes)
    rows = (_ABREAST, batch_size)
    examples = (people.train.x, people.train.y)
    x, y = jax.tree.map(lambda leaf: _stacked(rows, leaf, 1), examples)
    mask: Any = jax.ShapeDtypeStruct(rows, bool)
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), _ABREAST))
    gradients = jax.jit(jax.vmap(jax.grad(loss)))
    try:
        compiled = gradients.lower(params, Batch(x, y, mask), keys).compile()
    except jax.errors.JaxRuntimeError:
        return 2**62
    needs: Any = compiled.memory_analysis()
    return needs.temp_size_in_bytes // _ABREAST


def _stacked(front: tuple[int, ...], leaf: Any, less: int = 0) -> jax.ShapeDtypeStruct:
    """The shape of a leaf with these axes in front, instead of so many of its own."""
    return jax.ShapeDtypeStruct((*front, *leaf.shape[less:]), leaf.dtype)


def _plan(experiment: "Experiment", people: Population) -> tuple[MakePlan, float]:
    """Local minibatches, and the most work of a client over the mean."""
    if experiment.epochs is None:
        steps = experiment.steps or DEFAULT_STEPS
        return with_replacement(steps, experiment.batch_size), 1.0
    work = np.ceil(np.asarray(people.train.size) / experiment.batch_size)
    ragged = float(work.max() / work.mean())
    return epochs(experiment.epochs, experiment.batch_size), ragged


def most_steps(experiment: "Experiment", people: Population) -> int:
    """Local steps of the client with most of them."""
    if experiment.epochs is None:
        return experiment.steps or DEFAULT_STEPS
    return experiment.epochs * -(-people.train.largest // experiment.batch_size)


def _sampler(
    experiment: "Experiment", people: Population, local: LocalWork
) -> tuple[Spec, int]:
    """The sampler, on changing candidates if there are to be any, and its slots."""
    part, clients = experiment.parts["sampler"], people.clients
    tools = SamplerTools(experiment.cohort, local.loss)
    made = part.spec.build(tools, **at_start(part.spec.hp))
    if isinstance(made, HostAssisted):
        if experiment.pool is not None:
            raise ValueError(
                f"sampler {part.name} takes no pool: got {experiment.pool}"
            )
    elif made.takes_all:
        if experiment.pool is not None:
            raise ValueError(
                f"sampler {part.name} takes every client and no pool: "
                f"got {experiment.pool}"
            )
        if experiment.cohort != clients:
            print(
                f"{experiment.title} takes every client: "
                f"{clients} per round, not {experiment.cohort}",
                file=sys.stderr,
            )
        return part.spec, clients
    if experiment.cohort > clients:
        raise ValueError(
            f"cohort must be at most the number of clients, {clients}: "
            f"got {experiment.cohort}"
        )
    if experiment.pool is None:
        return part.spec, experiment.cohort
    if experiment.pool > clients:
        raise ValueError(
            f"pool must be at most the number of clients, {clients}: "
            f"got {experiment.pool}"
        )
    pool, every = experiment.pool, experiment.pool_every
    pooled = then(part.spec, lambda inner: pools(inner, pool, every))
    return pooled, experiment.cohort


@cache
def _published_augmentation() -> Callable:
    """The training transform of Kim et al., CVPR 2024."""
    return augment.chain(augment.rotate(10), augment.pad_crop(4), augment.flip())
