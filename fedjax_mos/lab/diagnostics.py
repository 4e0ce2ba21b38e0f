"""Diagnostics: what theorems bound and curves do not show, as columns of the frame.

With x the server's model after a round, f = sum_i p_i f_i and y_i what client i makes
of x in the next round (every client is asked, with batches of its own):

    squared_gradient_norm   |grad f(x)|^2
    client_drift            sum_i p_i |y_i - x|^2
    direction_error         sum_i p_i |d_i - grad f_i(x)|^2,  d_i = (x - y_i) / (the sum
                            of the client's step sizes), its mean direction
    update_variance         E |u - E u|^2, u = the server's next step x' - x, over
                            cohorts and batches: of a few rounds that are tried and
                            forgotten, the unbiased estimate
    update_cosine           the mean of cos(u, -grad f(x)) over these rounds

Eq. (23) of Wang et al., INFOCOM 2023 [wang2023fedmos], is `update_variance` where the
server adds the aggregate, whatever its momentum, which moves all u alike. A server that
scales it (`server_lr`, Adam) scales the variance too, coordinate by coordinate. How
often message rules fire is in the frame anyway (`local_fired_up`, `local_fired_down`);
`compression_ratios` has two more diagnostics, of what compression and rules change.
Clients are taken to send y_i - x; the catalog knows methods that do not and refuses
them, an algorithm of yours is not checked.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.client.tools import over_all
from fedjax_mos.data.store import views
from fedjax_mos.engine.evaluation import Measure, gradient
from fedjax_mos.engine.rollout import Evaluate
from fedjax_mos.engine.tracking import leading
from fedjax_mos.lab import catalog
from fedjax_mos.lab.compression_ratios import RATIOS, alone, parts, ratios
from fedjax_mos.schedule import at_round
from fedjax_mos.types import (
    Batch,
    Channel,
    ClientView,
    Cohort,
    Exchange,
    FederatedData,
    Hp,
    Key,
    LocalWork,
    Metrics,
    OneClient,
    Params,
    PyTree,
    RoundState,
    Row,
    Simulation,
    Up,
)

if TYPE_CHECKING:
    from fedjax_mos.lab.experiment import Experiment

Diagnose = Callable[[RoundState, FederatedData, Key], Metrics]
ROUNDS = 4  # that are tried and forgotten
_KEY = 0xD1  # of what is tried, apart from all keys of a run
_CLIENTS = ("client_drift", "direction_error")
_UPDATES = ("update_variance", "update_cosine")
_WIDTH = 32  # examples of a client at a time


def with_diagnostics(
    evaluate: Evaluate, experiment: "Experiment", sim: Simulation, metrics: Measure
) -> Evaluate:
    """`evaluate` with the experiment's diagnostics; as it is if there are none."""
    wanted = experiment.diagnostics
    if not wanted:
        return evaluate
    if "direction_error" in wanted and "lr" not in sim.specs["algorithm"].hp:
        raise ValueError(
            "diagnostics direction_error needs the number lr of the algorithm, which "
            f"{experiment.parts['algorithm'].name} does not have"
        )
    name = experiment.parts["algorithm"].name
    known = catalog.ALGORITHMS.get(name)
    asked = [one for one in wanted if one in _CLIENTS]
    if asked and known is not None and not known.sends_move:
        raise ValueError(
            f"diagnostics {asked[0]} needs a method whose clients send y_i - x, which "
            f"those of {name} do not"
        )
    diagnose = diagnostics(sim, metrics, wanted)

    def both(state: RoundState, stores: Mapping[str, FederatedData]) -> Metrics:
        key = jax.random.fold_in(jax.random.key(_KEY), state.round)
        return dict(evaluate(state, stores)) | diagnose(state, stores["train"], key)

    return both


def diagnostics(sim: Simulation, metrics: Measure, wanted: tuple[str, ...]) -> Diagnose:
    """A pure function `(state, data, key) -> {name: number}` of what is wanted."""
    slope = gradient(metrics, backend=sim.backend)
    by_client, by_message = _per_client(sim), _per_message(sim)

    def diagnose(state: RoundState, data: FederatedData, key: Key) -> Metrics:
        k_clients, k_rounds = jax.random.split(key)
        found: Metrics = {}
        g = slope(state.server.params, data)
        found["squared_gradient_norm"] = _square(g)
        if any(name in wanted for name in _CLIENTS):
            found |= by_client(state, data, k_clients)
        if any(name in wanted for name in RATIOS):
            found |= by_message(state, data, k_clients)
        if any(name in wanted for name in _UPDATES):
            keys = jax.random.split(k_rounds, ROUNDS)
            found |= tried_updates(sim, state, data, keys, g)
        return {name: found[name] for name in wanted}

    return diagnose


def _per_client(sim: Simulation) -> Diagnose:
    """sum_i p_i of what every client measures."""

    def one_client(shared: PyTree, row: Row, view: ClientView) -> tuple:
        server, hp, key = shared
        up, local, k_client = _asked(sim, shared, row, view)
        moved = leading(up, server.params)
        measured = {"client_drift": _square(moved)}
        if "lr" in hp["algorithm"]:
            length = local.path_length(
                local.plan(view, k_client), hp["algorithm"]["lr"]
            )

            def slope(batch: Batch, key: Key) -> Params:
                return jax.grad(local.loss)(server.params, batch, None)

            g = over_all(slope, view, k_client, _WIDTH)
            # d_i - grad f_i = -(y_i - x) / length - grad f_i
            apart = jax.tree.map(lambda m, g: m / length + g, moved, g)
            measured["direction_error"] = _square(apart)
        return (), row, measured

    def diagnose(state: RoundState, data: FederatedData, key: Key) -> Metrics:
        _, each, share = _everyone(sim, one_client, state, data, key)
        return {name: share @ values for name, values in each.items()}

    return diagnose


def _per_message(sim: Simulation) -> Diagnose:
    """What becomes of every client's message on the way."""

    def uplink(hp: Hp) -> Channel:
        return sim.specs["uplink"].build(**hp["uplink"])

    def one_client(shared: PyTree, row: Row, view: ClientView) -> tuple:
        server, hp, _ = shared
        got = _exchange(sim, hp)[1].broadcast(server)
        up, _, k_client = _asked(sim, shared, row, view)
        found, fired = parts(uplink(hp), row.up[0], up, got, k_client)
        return found, row, fired

    def diagnose(state: RoundState, data: FederatedData, key: Key) -> Metrics:
        means, fired, _ = _everyone(sim, one_client, state, data, key)
        hp = _hp(sim, state)
        got = _exchange(sim, hp)[1].broadcast(state.server)
        return ratios(means, fired, alone(uplink(hp), means[1], got, key))

    return diagnose


def _asked(
    sim: Simulation, shared: PyTree, row: Row, view: ClientView
) -> tuple[Up, LocalWork, Key]:
    """What a client would send of the server's model, its local work and its key."""
    server, hp, key = shared
    local, exchange = _exchange(sim, hp)
    k_client = jax.random.fold_in(key, view.id)
    up, _, _ = exchange.client(exchange.broadcast(server), row.mine, view, k_client)
    return up, local, k_client


def _exchange(sim: Simulation, hp: Hp) -> tuple[LocalWork, Exchange]:
    """What a method does in a round, if it is one exchange."""
    local = sim.specs["local"].build(**hp["local"])
    method = sim.specs["algorithm"].build(local, **hp["algorithm"])
    if len(method.exchanges) > 1:
        raise ValueError(
            f"diagnostics {', '.join((*_CLIENTS, *RATIOS))} need a method with one "
            f"exchange per round: this one has {len(method.exchanges)}"
        )
    return local, method.exchanges[0]


def _everyone(
    sim: Simulation, one_client: OneClient, state: RoundState, data: FederatedData,
    key: Key,
) -> tuple[PyTree, PyTree, jax.Array]:  # fmt: skip
    """All clients as the backend lays them out: means, what each measures, p."""
    n = data.size.shape[0]
    everyone = Cohort(jnp.arange(n), jnp.full(n, 1 / n), jnp.ones(n, bool))
    view = views(data, everyone.ids, state.round)
    shared: PyTree = (state.server, _hp(sim, state), key)
    rows = sim.backend.rows.take(state.clients, everyone.ids)
    (means, _), _, each = sim.backend.map(one_client, shared, rows, view, everyone)
    return means, each, view.share


def tried_updates(
    sim: Simulation, state: RoundState, data: FederatedData, keys: Key, slope: Params
) -> Metrics:
    """Variance of the server's next step, and its cosine with -slope, over `keys`."""
    x = state.server.params

    def add(carry: tuple, key: Key) -> tuple[tuple, jax.Array]:
        count, mean, squares = carry
        u = optax.tree.sub(sim.step(data, state, key)[0].server.params, x)
        # Welford: the sum of squares about the mean so far, without cancellation.
        count = count + 1
        away = optax.tree.sub(u, mean)
        mean = optax.tree.add_scale(mean, 1 / count, away)
        squares = squares + optax.tree.vdot(away, optax.tree.sub(u, mean))
        return (count, mean, squares), cosine(u, optax.tree.scale(-1, slope))

    zero = jnp.zeros_like(_square(x))
    first = (zero, optax.tree.zeros_like(x), zero)
    (_, _, squares), cosines = jax.lax.scan(add, first, keys)
    return {
        "update_variance": squares / (len(keys) - 1),
        "update_cosine": cosines.mean(),
    }


def cosine(a: Params, b: Params) -> jax.Array:
    """<a, b> / (|a| |b|); zero where either is zero."""
    size = jnp.sqrt(_square(a) * _square(b))
    return jnp.where(size > 0, optax.tree.vdot(a, b) / jnp.where(size > 0, size, 1), 0)


def _square(a: Params) -> jax.Array:
    return optax.tree.vdot(a, a)


def _hp(sim: Simulation, state: RoundState) -> Hp:
    now = at_round(state.hp, state.round)
    return sim.specs["decay"].build(**now["decay"])(now, state.round)
