"""An experiment's clients, each measured on its own examples."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax

from fedjax_mos.client.tools import walk
from fedjax_mos.engine.evaluation import Measure, per_client
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.lab.client_statistics import statistics
from fedjax_mos.lab.columns import falls
from fedjax_mos.lab.personal_models import per_client_personal
from fedjax_mos.lab.population import OWN
from fedjax_mos.schedule import at_round
from fedjax_mos.types import (
    ClientView,
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

ByClient = Callable[[RoundState, Mapping[str, FederatedData]], Metrics]  # leaves [N]
_KEY = 0x50  # of the batches of personal models, apart from all keys of a run


def by_client_of(
    experiment: "Experiment", sim: Simulation, metrics: Measure
) -> ByClient | None:
    """`(state, stores) -> {column: [N]}`, or None if it is off.

    Measured on what was held out of a client's examples, else on all of them. A
    personal model is the server's after one round's plan of SGD with the method's `lr`,
    on batches that depend on round and client alone.
    """
    if experiment.per_client == "off":
        return None
    plain = per_client(metrics, backend=sim.backend)
    personal = None
    if experiment.per_client == "personal":
        if "lr" not in sim.specs["algorithm"].hp:
            raise ValueError(
                "per_client personal needs the number lr of the algorithm, which "
                f"{experiment.parts['algorithm'].name} does not have: try global"
            )
        personal = per_client_personal(metrics, _personalise(sim), sim.backend)

    def values(state: RoundState, stores: Mapping[str, FederatedData]) -> Metrics:
        store = OWN if OWN in stores else "train"
        params, own = state.server.params, stores[store]
        found = {f"{store}_{n}": v for n, v in plain(params, own).items()}
        if personal is not None:
            now = at_round(state.hp, state.round)
            hp = sim.specs["decay"].build(**now["decay"])(now, state.round)
            key = jax.random.fold_in(jax.random.key(_KEY), state.round)
            more = personal(params, hp, stores["train"], own, key)
            found |= {f"personal_{store}_{n}": v for n, v in more.items()}
        return found

    return values


def with_statistics(evaluate: Evaluate, by_client: ByClient) -> Evaluate:
    """`evaluate` with columns `COLUMN_client_STATISTIC`."""

    def both(state: RoundState, stores: Mapping[str, FederatedData]) -> Metrics:
        out = dict(evaluate(state, stores))
        for name, values in by_client(state, stores).items():
            found = statistics(values, falls(name))
            out |= {f"{name}_client_{n}": v for n, v in found.items()}
        return out

    return both


def _personalise(sim: Simulation) -> Callable[[Params, Hp, ClientView, Key], Params]:
    def personalise(params: Params, hp: Hp, view: ClientView, key: Key) -> Params:
        local = sim.specs["local"].build(**hp["local"])
        lr = hp["algorithm"]["lr"]
        return walk(local, local.gradient, params, view, key, lr)[0]

    return personalise
