"""Derivatives of a whole training run by its numbers.

    F(h) = mean over seeds of objective(x_T(h)),   x_{t+1} = round(x_t, h)

Reverse mode costs a few runs however many numbers there are, and memory for O(sqrt(T))
states (`checkpointed_rollout`). Forward mode carries one tangent per number along and
keeps nothing.

What is chosen rather than computed has derivative zero: who is sampled, which entries
rank among the largest (`fraction`), whether a rule fires (`kappa`). A compressor's own
derivative is that of the entries it lets through, or with `straight_through` the
identity.
"""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients.checkpointed_rollout import checkpointed_rollout
from fedjax_mos.lab.hypergradients.stability import Hypergradient, report
from fedjax_mos.lab.hypergradients.windowed_rollout import windowed_rollout
from fedjax_mos.lab.hypergradients.wrt import Wrt, with_named
from fedjax_mos.lab.population import OWN
from fedjax_mos.lab.setting_checks import check_count
from fedjax_mos.types import (
    FederatedData,
    Key,
    Params,
    PyTree,
    RoundState,
)

Mode = Literal["auto", "forward", "reverse"]
FEW = 4  # up to so many numbers forward mode is the cheaper one
REVERSE = 8  # plain runs that a gradient in reverse costs
_NUDGE = 0x4E  # folded into a seed's key


def hypergrad(
    experiment: Experiment,
    wrt: Wrt | None = None,
    objective: str | None = None,
    *,
    seeds: int = 1,
    mode: Mode = "auto",
    horizon: int | None = None,
) -> Hypergradient:
    """The derivative of `objective` after the last round by the numbers `wrt`.

    `wrt` names numbers (by default all of the algorithm), or maps names to the values
    to differentiate at: a number, a `Schedule` with one value per round, or for `scale`
    a tree with one per parameter tensor. The objective is a loss: by default that of
    validation or held-out data, or of the training data where there are none. `mode` is
    forward, reverse, or auto: forward for up to four numbers. With a `horizon` the
    gradient looks back over windows of so many rounds only (`windowed_rollout`).
    """
    made, named = with_named(experiment, wrt)
    goal = objective or default_objective(made)
    rounds, seed = experiment.rounds, experiment.seed
    return differentiator(made, rounds, goal, seed, seeds, mode, horizon)(named)


def default_objective(made: Assembled) -> str:
    """The loss of validation or held-out data, or of the training data without."""
    known = [store for store in ("valid", OWN) if store in made.stores]
    return f"{[*known, 'train'][0]}_loss"


def differentiator(
    made: Assembled,
    rounds: int,
    objective: str,
    seed: int = 0,
    seeds: int = 1,
    mode: Mode = "auto",
    horizon: int | None = None,
) -> Callable[[PyTree], Hypergradient]:
    """A function hyperparameters -> Hypergradient, compiled once.

    Both modes follow, besides them, one random change of the start (or of what every
    window begins from): `growth`.
    """
    check_asked(made, objective, seeds, mode, horizon)
    window = None if horizon is None or horizon >= rounds else horizon
    keys = jax.vmap(jax.random.key)(seed + jnp.arange(seeds))
    made.check_whole("a hypergradient")
    read = (made.data, made.stores)
    read, keys = made.sim.backend.place(read, keys, False)
    arguments = (*read, keys)

    def one(
        named: PyTree, nudge: jax.Array, data: FederatedData, stores: Any, key: Key
    ) -> tuple[jax.Array, jax.Array, Params]:
        def begin(state: RoundState) -> RoundState:
            return _nudged(state, nudge, key)

        def measure(state: RoundState) -> jax.Array:
            return made.evaluate(state, stores)[objective]

        state, k_run = made.start(key, named)
        if window is not None:
            return windowed_rollout(
                made.sim, data, state, k_run, rounds, window, begin, measure
            )
        state, path = checkpointed_rollout(made.sim, data, begin(state), k_run, rounds)
        return (last := measure(state)), last, path

    def value(named: PyTree, nudge: jax.Array, *args: Any) -> tuple[jax.Array, Any]:
        """What is differentiated; the objective and the parameters on the way."""
        batch = jax.vmap(one, (None, None, None, None, 0))
        means, lasts, paths = batch(named, nudge, *args)
        return means.mean(), (lasts.mean(), paths)

    def forward(named: PyTree, *args: Any) -> tuple:
        flat, unravel = ravel_pytree(named)

        def push(tangent: jax.Array) -> tuple:
            outs, tangents = jax.jvp(
                lambda z: value(unravel(z[:-1]), z[-1], *args), (start,), (tangent,)
            )
            return outs[1][0], tangents[0], _sizes(tangents[1][1])

        start = jnp.append(flat, 0)
        values, slopes, growth = jax.vmap(push, out_axes=(None, 0, 0))(
            jnp.eye(start.size)
        )
        return values, unravel(slopes[:-1]), growth[-1]

    def reverse(named: PyTree, *args: Any) -> tuple:
        zero = jnp.zeros(())
        slope = jax.value_and_grad(value, has_aux=True)
        (_, (now, _path)), gradient = slope(named, zero, *args)
        _, moved = jax.jvp(
            lambda nudge: value(named, nudge, *args)[1][1], (zero,), (jnp.ones(()),)
        )
        return now, gradient, _sizes(moved)

    compiled = {"forward": jax.jit(forward), "reverse": jax.jit(reverse)}

    def at(named: PyTree) -> Hypergradient:
        # One dtype, strongly typed: a Python float would compile once more.
        named = jax.tree.map(lambda v: jnp.asarray(v, jnp.result_type(float)), named)
        count = sum(leaf.size for leaf in jax.tree.leaves(named))
        chosen = mode if mode != "auto" else "forward" if count <= FEW else "reverse"
        out = jax.device_get(compiled[chosen](named, *arguments))
        value, gradient, growth = out
        return report(value, gradient, growth, rounds, chosen, window)

    return at


def runs(mode: str, named: PyTree) -> int:
    """What a gradient costs, in plain runs: about one per tangent and the run itself.

    In reverse every round is computed three times and followed back, and the change of
    the start goes forward besides.
    """
    count = sum(np.size(leaf) for leaf in jax.tree.leaves(named))
    return 2 + count if mode == "forward" else REVERSE


def _nudged(state: RoundState, nudge: jax.Array, key: Key) -> RoundState:
    """The start moved by `nudge` along a random direction of norm one."""
    params = state.server.params
    direction = optax.tree.random_like(jax.random.fold_in(key, _NUDGE), params)
    distance = nudge / optax.tree.norm(direction)
    moved = optax.tree.add_scale(params, distance, direction)
    return state._replace(server=state.server._replace(params=moved))


def _sizes(moved: Params) -> jax.Array:
    """Norms [borders] of changes [seeds, borders, ...], the largest of the seeds."""
    squares = [
        jnp.square(leaf).reshape(*leaf.shape[:2], -1).sum(-1)
        for leaf in jax.tree.leaves(moved)
    ]
    return jnp.sqrt(sum(squares, jnp.zeros(()))).max(0)


def check_asked(
    made: Assembled, objective: str, seeds: int, mode: str, horizon: int | None
) -> None:
    """Raise a ValueError for a gradient that there is not."""
    if horizon is not None:
        check_count("horizon", horizon)
    if mode not in ("auto", "forward", "reverse"):
        raise ValueError(f"mode must be auto, forward or reverse: got {mode!r}")
    check_count("seeds", seeds)
    if not made.sim.backend.traced:
        raise ValueError("backend debug is not traced and cannot be differentiated")
    if made.sim.host_update is not None:
        raise ValueError("a sampler with work on the host cannot be differentiated")
    metrics = made.metrics()
    smooth = [name for name in metrics if not name.endswith("accuracy")]
    if objective not in smooth:
        raise ValueError(
            f"objective must be one of {', '.join(smooth)}: got {objective!r}"
            + (" (an accuracy is piecewise constant)" if objective in metrics else "")
        )
