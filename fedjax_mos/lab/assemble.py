"""An experiment put together: data, model, simulation, evaluation."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from fedjax_mos.client.losses import mean_loss, measures
from fedjax_mos.engine.evaluation import evaluator
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.client_evaluation import ByClient, by_client_of, with_statistics
from fedjax_mos.lab.diagnostics import with_diagnostics
from fedjax_mos.lab.dropout_loss import with_dropout_loss
from fedjax_mos.lab.initial import Begin, begin_of, initial_model
from fedjax_mos.lab.memory_checks import check_work, check_working, rows_on_disk
from fedjax_mos.lab.network import Network, check_values, loss_of, network_of
from fedjax_mos.lab.population import Population, population_of
from fedjax_mos.lab.simulation import most_steps, simulation_of
from fedjax_mos.lab.stopping import check_stop_at
from fedjax_mos.lab.structure import hp_of, structure
from fedjax_mos.latest import Latest
from fedjax_mos.machine import keep_programs
from fedjax_mos.target import traced_for
from fedjax_mos.types import (
    FederatedData,
    Hp,
    Key,
    Metrics,
    Params,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment


class Functions(NamedTuple):
    """What experiments of one structure share: the functions that are compiled."""

    sim: Simulation
    network: Network
    evaluate: Evaluate
    by_client: ByClient | None
    start: Callable[[FederatedData, Key, Hp], tuple[RoundState, Key]]
    begin: Begin


def assemble(
    experiment: "Experiment", lanes: int = 1, platform: str | None = None
) -> Assembled:
    """Load the data and put the simulation together; nothing is compiled yet.

    The programs are for a `platform`, by default that of this process.

    An experiment that differs from an earlier one in numbers, seed or rounds only gets
    that one's functions, and thereby its compiled programs.
    """
    keep_programs()
    people = population_of(experiment)
    target = platform or jax.default_backend()
    shared = functions_of(experiment, people, lanes, target)
    check_work(experiment, people, shared.sim, most_steps(experiment, people))

    def shapes() -> RoundState:
        key = jax.random.key(0)
        return jax.eval_shape(shared.start, people.train, key, shared.sim.hp)[0]

    on_disk = rows_on_disk(experiment, people, shared.network.shapes, shapes, lanes)
    if on_disk or people.generated is not None:
        check_working(experiment, people, shared.sim, shapes())
    update = shared.sim.host_update
    if update is not None and experiment.rounds <= update.warm_up:
        raise ValueError(
            f"rounds must be more than warm_up, {update.warm_up}: "
            f"got {experiment.rounds}"
        )
    own = hp_of(experiment, shared.sim)

    def init(
        params: Params,
        data: FederatedData,
        key: Key,
        hp: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> RoundState:
        return shared.sim.init(params, data, key, _merged(own, hp or {}), rows)

    def start(key: Key, hp: Mapping[str, Any] | None = None) -> tuple[RoundState, Key]:
        return shared.start(people.train, key, _merged(own, hp or {}))

    def begin(seeds: np.ndarray, hp: Hp | None = None) -> tuple[RoundState, Key]:
        lanes = np.shape(seeds)
        alike = jax.tree.map(lambda v: np.broadcast_to(v, lanes + np.shape(v)), own)
        return shared.begin(people.train, seeds, hp or alike, on_disk)

    specs = {
        kind: dataclasses.replace(made, hp=own[kind])
        for kind, made in shared.sim.specs.items()
    }
    sim = dataclasses.replace(shared.sim, init=init, specs=specs)
    network, evaluate = shared.network, shared.evaluate
    data, stores = people.train, people.stores
    made = Assembled(
        sim,
        data,
        stores,
        evaluate,
        start,
        begin,
        network.apply,
        network.shapes,
        shared.by_client,
        people.generated,
        on_disk,
    )
    check_stop_at(experiment.stop_at, made)
    return made


# With the experiment that each was made for: structures are those of living objects.
_FUNCTIONS: "Latest[tuple[Experiment, Functions]]" = Latest(most=16)


def functions_of(
    experiment: "Experiment", people: Population, lanes: int, platform: str
) -> Functions:
    """Those of an earlier experiment of the same structure, or new ones."""
    wide = jax.config.values["jax_enable_x64"]
    machine = (lanes, jax.device_count(), platform, wide)
    return _FUNCTIONS.get(
        (structure(experiment), people.token, machine),
        lambda: (experiment, _functions(experiment, people, lanes, platform)),
    )[1]


def _functions(
    experiment: "Experiment", people: Population, lanes: int, platform: str
) -> Functions:
    loss = loss_of(experiment, people)
    network = network_of(experiment, people, platform)
    check_values(experiment, people, network, loss, platform)
    sim = simulation_of(experiment, people, network, loss, lanes, platform)

    @jax.jit
    def start(data: FederatedData, key: Key, hp: Hp) -> tuple[RoundState, Key]:
        params, k_run = initial_model(network, key)
        return sim.init(params, data, k_run, hp), k_run

    measure = measures(network.apply, loss, experiment.metrics)
    evaluate = evaluator(measure, backend=sim.backend)
    if not experiment.eval_train:
        evaluate = _without_train(evaluate, people)
    by_client = by_client_of(experiment, sim, measure)
    if by_client is not None:
        evaluate, by_client = with_statistics(evaluate, by_client), jax.jit(by_client)
    if experiment.dropout_loss:
        mean = mean_loss(network.apply, loss)
        evaluate = with_dropout_loss(evaluate, mean, experiment.batch_size, sim.backend)
    evaluate = with_diagnostics(evaluate, experiment, sim, measure)
    evaluate = traced_for(platform, evaluate, experiment.precision)
    evaluate.identity = sim.identity  # type: ignore[attr-defined]
    begin = begin_of(experiment, people, network, sim)
    return Functions(sim, network, evaluate, by_client, start, begin)


def _without_train(evaluate: Evaluate, people: Population) -> Evaluate:
    """`evaluate` on all stores but the clients' training examples."""
    if {*people.stores} <= {"train"}:
        raise ValueError(
            "eval_train must be on for data that have no other examples to evaluate"
        )

    def others(state: RoundState, stores: Mapping[str, FederatedData]) -> Metrics:
        return evaluate(state, {n: s for n, s in stores.items() if n != "train"})

    return others


def _merged(own: Hp, changes: Mapping[str, Any]) -> Hp:
    """`own` with nested changes; unknown ones are left for `sim.init` to refuse."""
    return dict(changes) | {
        name: _merged(value, changes[name])
        if name in changes and isinstance(value, dict)
        else changes.get(name, value)
        for name, value in own.items()
    }
