"""An experiment put together: data, model, local work, sampler, layout."""

import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.backends.auto import backend_named
from fedjax_mos.client.losses import Apply, PerExample, mean_loss, measures
from fedjax_mos.client.plans import epochs, with_replacement
from fedjax_mos.components import Spec, bound, then
from fedjax_mos.data import augment
from fedjax_mos.engine.evaluation import evaluator
from fedjax_mos.engine.simulation import simulation
from fedjax_mos.lab import catalog
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.population import Population, population_of
from fedjax_mos.machine import keep_programs
from fedjax_mos.models.functions import as_model
from fedjax_mos.samplers import pools
from fedjax_mos.types import (
    Backend,
    Forward,
    HostAssisted,
    Key,
    LocalWork,
    MakePlan,
    Params,
    PyTree,
    RoundState,
    SamplerTools,
    Simulation,
)

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

DEFAULT_STEPS = 5


class Network(NamedTuple):
    """A model on raw examples."""

    init: Callable[[Key], Params]
    apply: Apply
    forward: Forward | None
    shapes: Params  # of the parameters


def assemble(experiment: "Experiment", lanes: int = 1) -> Assembled:
    """Load the data and put the simulation together; nothing is compiled yet."""
    keep_programs()
    people = population_of(experiment)
    loss = _loss(experiment, people)
    network = _network(experiment, people)
    sim = _simulation(experiment, people, network, loss, lanes)

    def start(key: Key, hp: Mapping[str, Any] | None = None) -> tuple[RoundState, Key]:
        k_params, k_run = jax.random.split(key)
        return sim.init(network.init(k_params), people.train, k_run, hp), k_run

    measure = measures(network.apply, loss, experiment.metrics)
    evaluate = evaluator(measure, backend=sim.backend)
    return Assembled(sim, people.train, people.stores, evaluate, start, network.apply)


def _loss(experiment: "Experiment", people: Population) -> PerExample:
    if not isinstance(experiment.loss, str):
        return experiment.loss
    loss, y = catalog.LOSSES[experiment.loss], people.train.y
    whole = jnp.issubdtype(y.dtype, jnp.integer) and y.ndim == 1
    if experiment.loss == "cross_entropy" and not whole:
        raise ValueError(
            "loss cross_entropy needs one integer label per example: y has the shape "
            f"{y.shape} and the type {y.dtype}; try squared_error or a loss of your own"
        )
    return loss


def _network(experiment: "Experiment", people: Population) -> Network:
    part = experiment.parts["model"]
    made = part.spec.build(people.outputs, **part.spec.hp)
    model, normalise = as_model(made), people.normalise
    x = people.train.x
    first = jax.eval_shape(lambda x: normalise(jax.tree.map(lambda v: v[:1], x)), x)
    try:
        shapes = jax.eval_shape(model.init, jax.random.key(0), first)
        outputs = jax.eval_shape(lambda p, x: model.apply(p, x, None), shapes, first)
    except (TypeError, ValueError) as error:
        sizes = jax.tree.map(lambda v: v.shape[1:], first)
        raise ValueError(
            f"model {part.name} does not fit inputs of shape {sizes}: {error}"
        ) from error
    if not hasattr(outputs, "shape"):
        raise ValueError(f"model {part.name} must return one array: got {outputs}")

    def apply(params: Params, x: PyTree, key: Key | None) -> jax.Array:
        return model.apply(params, normalise(x), key)

    def forward(
        params: Params, h: PyTree, start: int, key: Key | None
    ) -> tuple[jax.Array, ...]:
        assert model.forward is not None
        return model.forward(params, h if start else normalise(h), start, key)

    def init(key: Key) -> Params:
        return model.init(key, jax.tree.map(jnp.zeros_like, first))

    return Network(init, apply, forward if model.forward else None, shapes)


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


def _plan(experiment: "Experiment", people: Population) -> tuple[MakePlan, float]:
    """Local minibatches, and the most work of a client over the mean."""
    if experiment.epochs is None:
        steps = experiment.steps or DEFAULT_STEPS
        return with_replacement(steps, experiment.batch_size), 1.0
    work = np.ceil(np.asarray(people.train.size) / experiment.batch_size)
    ragged = float(work.max() / work.mean())
    return epochs(experiment.epochs, experiment.batch_size), ragged


def _sampler(
    experiment: "Experiment", people: Population, local: LocalWork
) -> tuple[Spec, int]:
    """The sampler, on changing candidates if there are to be any, and its slots."""
    part, clients = experiment.parts["sampler"], people.clients
    made = part.spec.build(SamplerTools(experiment.cohort, local.loss), **part.spec.hp)
    if isinstance(made, HostAssisted):
        if experiment.pool is not None:
            raise ValueError(
                f"sampler {part.name} takes no pool: got {experiment.pool}"
            )
        if experiment.rounds <= made.update.warm_up:
            raise ValueError(
                f"rounds must be more than warm_up, {made.update.warm_up}: "
                f"got {experiment.rounds}"
            )
    elif made.takes_all:
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
    pool, every = experiment.pool, experiment.pool_every
    pooled = then(part.spec, lambda inner: pools(inner, pool, every))
    return pooled, experiment.cohort


def _simulation(
    experiment: "Experiment",
    people: Population,
    network: Network,
    loss: PerExample,
    lanes: int,
) -> Simulation:
    plan, ragged = _plan(experiment, people)
    local = _local(experiment, network, loss, plan)
    sampler, slots = _sampler(experiment, people, local.build())

    def layout(slots: int) -> Backend:
        name = experiment.backend
        if not isinstance(name, str):
            return name
        return backend_named(name, network.shapes, slots, lanes, ragged)

    made = {kind: experiment.parts[kind].spec for kind in _LINKS}
    return simulation(
        experiment.parts["algorithm"].spec,
        local,
        sampler,
        cohort=experiment.cohort,
        backend=layout(slots),
        warm_up_backend=layout(people.clients),
        **made,
    )


_LINKS = ("uplink", "downlink", "broadcast", "schedule")


@cache
def _published_augmentation() -> Callable:
    """The training transform of Kim et al., CVPR 2024."""
    return augment.chain(augment.rotate(10), augment.pad_crop(4), augment.flip())
