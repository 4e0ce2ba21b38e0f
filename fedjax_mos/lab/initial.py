"""The first state of a run: the model that its seed draws, and the method's own."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from fedjax_mos.lab.network import Network
from fedjax_mos.lab.population import Population
from fedjax_mos.lab.structure import model_structure
from fedjax_mos.latest import Latest
from fedjax_mos.machine import compiler_options
from fedjax_mos.programs import Program
from fedjax_mos.types import FederatedData, Hp, Key, Params, RoundState, Simulation

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

Begin = Callable[..., tuple[RoundState, Key]]  # (data, seed, hp, one_row=False)
# With the experiment that each was made for: structures are those of living objects.
_MODELS: "Latest[tuple[Experiment, Program]]" = Latest(most=16)


def initial_model(network: Network, key: Key) -> tuple[Params, Key]:
    """Parameters, and the key that is left for the run."""
    k_params, k_run = jax.random.split(key)
    return network.init(k_params), k_run


def begin_of(
    experiment: "Experiment",
    people: Population,
    network: Network,
    sim: Simulation,
) -> Begin:
    """`(data, seed, hp) -> state, key`, for one seed or for seeds and numbers [S].

    With `one_row` the state has one row, that all clients start with.
    Two programs: the models of a seed are those of all methods, and compiled once.
    """
    options = compiler_options(sim.platform)

    def make() -> tuple["Experiment", Program]:
        @partial(jax.jit, compiler_options=options)
        def models(seed: jax.Array) -> tuple[Params, Key]:
            def one(seed: jax.Array) -> tuple[Params, Key]:
                return initial_model(network, jax.random.key(seed))

            return jax.vmap(one)(seed) if seed.shape else one(seed)

        known = None if sim.identity is None else repr((model, "models"))
        return experiment, Program(models, known)

    def states(rows: int | None) -> Program:
        @partial(jax.jit, compiler_options=options)
        def made(data: FederatedData, params: Params, key: Key, hp: Hp) -> RoundState:
            init = partial(sim.init, rows=rows)
            if not key.shape:
                return init(params, data, key, hp)
            return jax.vmap(init, (0, None, 0, 0))(params, data, key, hp)

        kind = "states" if rows is None else "states of one row"
        known = None if sim.identity is None else f"{kind} of {sim.identity}"
        return Program(made, known)

    model = (model_structure(experiment), people.token, sim.platform)
    wide = jax.config.values["jax_enable_x64"]
    models = _MODELS.get((model, wide), make)[1]
    whole, short = states(None), states(1)

    def begin(
        data: FederatedData, seed: np.ndarray, hp: Hp, one_row: bool = False
    ) -> tuple[RoundState, Key]:
        params, key = models(seed)
        return (short if one_row else whole)(data, params, key, hp), key

    return begin
