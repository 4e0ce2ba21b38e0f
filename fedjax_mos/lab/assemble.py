"""An experiment put together: data, model, local work, sampler, layout."""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fedjax_mos.backends.auto import backend_named
from fedjax_mos.client.losses import PerExample, mean_loss, measures
from fedjax_mos.client.plans import epochs, with_replacement
from fedjax_mos.components import Spec, bound, then
from fedjax_mos.data import augment
from fedjax_mos.engine.evaluation import evaluator
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.engine.simulation import simulation
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.network import Network, loss_of, network_of
from fedjax_mos.lab.population import Population, population_of
from fedjax_mos.lab.structure import hp_of, structure
from fedjax_mos.latest import Latest
from fedjax_mos.machine import keep_programs
from fedjax_mos.samplers import pools
from fedjax_mos.schedule import at_start
from fedjax_mos.types import (
    Backend,
    FederatedData,
    HostAssisted,
    Hp,
    Key,
    LocalWork,
    MakePlan,
    Params,
    RoundState,
    SamplerTools,
    Simulation,
)

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

DEFAULT_STEPS = 5


class Program(NamedTuple):
    """What experiments of one structure share: the functions that are compiled."""

    sim: Simulation
    network: Network
    evaluate: Evaluate
    start: Callable[[FederatedData, Key, Hp], tuple[RoundState, Key]]


def assemble(experiment: "Experiment", lanes: int = 1) -> Assembled:
    """Load the data and put the simulation together; nothing is compiled yet.

    An experiment that differs from an earlier one in numbers, seed or rounds only gets
    that one's functions, and thereby its compiled programs.
    """
    keep_programs()
    people = population_of(experiment)
    program = _shared(experiment, people, lanes)
    update = program.sim.host_update
    if update is not None and experiment.rounds <= update.warm_up:
        raise ValueError(
            f"rounds must be more than warm_up, {update.warm_up}: "
            f"got {experiment.rounds}"
        )
    own = hp_of(experiment, program.sim)

    def init(
        params: Params,
        data: FederatedData,
        key: Key,
        hp: Mapping[str, Any] | None = None,
    ) -> RoundState:
        return program.sim.init(params, data, key, _merged(own, hp or {}))

    def start(key: Key, hp: Mapping[str, Any] | None = None) -> tuple[RoundState, Key]:
        return program.start(people.train, key, _merged(own, hp or {}))

    specs = {
        kind: dataclasses.replace(made, hp=own[kind])
        for kind, made in program.sim.specs.items()
    }
    sim = dataclasses.replace(program.sim, init=init, specs=specs)
    apply, evaluate = program.network.apply, program.evaluate
    return Assembled(sim, people.train, people.stores, evaluate, start, apply)


# With the experiment that each was made for: structures are those of living objects.
_PROGRAMS: "Latest[tuple[Experiment, Program]]" = Latest(most=16)


def _shared(experiment: "Experiment", people: Population, lanes: int) -> Program:
    """The program of an earlier experiment of the same structure, or a new one."""
    wide = jax.config.values["jax_enable_x64"]
    machine = (lanes, jax.device_count(), jax.default_backend(), wide)
    return _PROGRAMS.get(
        (structure(experiment), people.token, machine),
        lambda: (experiment, _program(experiment, people, lanes)),
    )[1]


def _program(experiment: "Experiment", people: Population, lanes: int) -> Program:
    loss = loss_of(experiment, people)
    network = network_of(experiment, people)
    sim = _simulation(experiment, people, network, loss, lanes)

    @jax.jit
    def start(data: FederatedData, key: Key, hp: Hp) -> tuple[RoundState, Key]:
        k_params, k_run = jax.random.split(key)
        return sim.init(network.init(k_params), data, k_run, hp), k_run

    measure = measures(network.apply, loss, experiment.metrics)
    return Program(sim, network, evaluator(measure, backend=sim.backend), start)


def _merged(own: Hp, changes: Mapping[str, Any]) -> Hp:
    """`own` with nested changes; unknown ones are left for `sim.init` to refuse."""
    return dict(changes) | {
        name: _merged(value, changes[name])
        if name in changes and isinstance(value, dict)
        else changes.get(name, value)
        for name, value in own.items()
    }


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
    sampler, slots = _sampler(experiment, people, local.build(**at_start(local.hp)))
    decays = "round_decay" in experiment.parts["decay"].spec.hp
    method = experiment.parts["algorithm"].spec
    if decays and method.static.get("client_optimizer") is not None:
        raise ValueError(
            "round_decay is for the step size lr, which a client_optimizer replaces: "
            "give the optimizer a schedule of its own"
        )

    def layout(slots: int) -> Backend:
        name = experiment.backend
        if not isinstance(name, str):
            return name
        return backend_named(name, network.shapes, slots, lanes, ragged)

    made = {kind: experiment.parts[kind].spec for kind in _LINKS}
    return simulation(
        method,
        local,
        sampler,
        cohort=experiment.cohort,
        backend=layout(slots),
        warm_up_backend=layout(people.clients),
        **made,
    )


_LINKS = ("uplink", "downlink", "broadcast", "decay")


@cache
def _published_augmentation() -> Callable:
    """The training transform of Kim et al., CVPR 2024."""
    return augment.chain(augment.rotate(10), augment.pad_crop(4), augment.flip())
