"""One federated round as one pure function: the only place where components meet."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.backends import live, vmapped
from fedjax_mos.channels.identity import dense, identity
from fedjax_mos.data.federated import views
from fedjax_mos.hyperparameters import as_spec, per_round, with_hp
from fedjax_mos.types import (
    Adapted,
    Aggregate,
    Algorithm,
    Backend,
    Channel,
    ClientView,
    Cohort,
    FederatedData,
    Hp,
    Key,
    LocalWork,
    Metrics,
    Params,
    PyTree,
    RoundInfo,
    RoundState,
    Row,
    Sampler,
    Shared,
    Simulation,
    Spec,
)


def simulation(
    algorithm: Spec,
    local: LocalWork | Spec,
    sampler: Sampler | Spec,
    *,
    uplink: Channel | Spec | None = None,
    downlink: Channel | Spec | None = None,
    broadcast: Channel | Spec | None = None,
    schedule: Callable[[Hp, jax.Array], Hp] | Spec = per_round,
    backend: Backend | None = None,
) -> Simulation:
    """Put components together.

    `algorithm.build(local_work, **hp)` makes the algorithm. `uplink` and `downlink` are
    per client, `broadcast` is shared; without them messages travel as they are.
    `schedule(hp, round)` gives the numbers of a round; as a Spec it has its own.
    """
    if isinstance(sampler, Adapted):
        raise ValueError(
            "sampler has work on the host: give its .sampler here and its .adaptation "
            "to run (an Experiment does so by itself)"
        )
    backend = vmapped() if backend is None else backend
    specs = {
        "algorithm": algorithm,
        "local": as_spec(local),
        "sampler": as_spec(sampler),
        "uplink": as_spec(uplink or identity()),
        "downlink": as_spec(downlink or identity()),
        "broadcast": as_spec(broadcast or identity()),
    }
    timetable = as_spec(schedule)
    defaults = {name: dict(s.hp) for name, s in specs.items()}
    defaults["schedule"] = dict(timetable.hp)

    def numbers_at(hp: Hp, round: jax.Array) -> Hp:
        return timetable.build(**per_round(hp["schedule"], round))(hp, round)

    def build(
        hp: Hp,
    ) -> tuple[Algorithm, Sampler, Channel, Channel, Channel]:
        # Ordinary factories over tracers: costs trace time only, nothing at run time.
        made = {n: s.build(**hp[n]) for n, s in specs.items() if n != "algorithm"}
        algo = algorithm.build(made["local"], **hp["algorithm"])
        return (
            algo,
            made["sampler"],
            made["uplink"],
            made["downlink"],
            made["broadcast"],
        )

    def init(
        params: Params,
        data: FederatedData,
        key: Key,
        hp: Mapping[str, Any] | None = None,
    ) -> RoundState:
        """The state before round 0; `hp` replaces some of the default numbers."""
        # Not weakly typed, as they come back: else the second block compiles again.
        params = jax.tree.map(lambda p: jnp.asarray(p, jnp.result_type(p)), params)
        n = data.size.shape[0]
        numbers = with_hp(defaults, hp, tree.float_dtype(params))
        start = jnp.zeros((), jnp.int32)
        algo, sampler_, up, down, cast = build(numbers_at(numbers, start))
        server, mine = algo.init(params)
        shapes = optax.tree.zeros_like(
            jax.eval_shape(rehearsal(algo), server, mine, data, key)
        )
        for way in zip(*shapes, strict=True):  # downs, ups: a round's bits fit 32 bits
            dense(way)
        row = Row(
            mine,
            tuple(up.init(message) for _, message in shapes),
            tuple(down.init(message) for message, _ in shapes),
        )
        return RoundState(
            round=start,
            server=server,
            clients=tree.tile(row, n),
            shared=tuple(cast.init(message) for message, _ in shapes),
            sampler=sampler_.init(data, key),
            hp=numbers,
        )

    def one_client(
        e: int, shared: Shared, row: Row, view: ClientView, client: jax.Array
    ) -> tuple[PyTree, Row, PyTree]:
        """Exchange `e` of ONE client, start to end."""
        algo, _, up, down, _ = build(shared.hp)
        k_wire = jax.random.fold_in(jax.random.fold_in(shared.k_wires, client), e)
        k_down, k_up = jax.random.split(k_wire)
        got, down_state = down.send(row.down[e], shared.wire, k_down, None)
        message, mine, measured = algo.exchanges[e].client(
            got.value, row.mine, view, jax.random.fold_in(shared.k_local, client)
        )
        sent, up_state = up.send(row.up[e], dense(message), k_up, got.value)
        row = Row(mine, _put(row.up, e, up_state), _put(row.down, e, down_state))
        rules = {"fired_up": sent.fired, "fired_down": got.fired}
        measured |= {name: f for name, f in rules.items() if f is not None}
        return sent.value, row, (measured, sent.bits, got.bits)

    def step(
        data: FederatedData, state: RoundState, key: Key
    ) -> tuple[RoundState, RoundInfo]:
        """Round `state.round`: sample, broadcast, local work, aggregate."""
        hp = numbers_at(state.hp, state.round)
        algo, sampler_, _, _, cast = build(hp)
        n = data.size.shape[0]
        k_sample, k_cast, k_local, k_wires = jax.random.split(key, 4)
        cohort, sampler_state = sampler_.sample(
            state.sampler, k_sample, state.server.params, data
        )
        rows, view = tree.gather(state.clients, cohort.ids), views(data, cohort.ids)
        count = cohort.mask.sum()
        server, casts = state.server, []
        metrics: Metrics = {}
        bits_up = bits_down = jnp.zeros(cohort.ids.shape, jnp.uint32)

        for e, exchange in enumerate(algo.exchanges):
            wire, cast_state = cast.send(
                state.shared[e],
                dense(exchange.broadcast(server)),
                jax.random.fold_in(k_cast, e),
                None,
            )
            casts.append(cast_state)
            shared = Shared(hp, wire, k_local, k_wires)
            (mean, total), rows, (measured, up_e, down_e) = backend.map(
                partial(one_client, e), shared, rows, view, cohort
            )
            server = exchange.server(server, Aggregate(mean, total, count, n))
            bits_up = bits_up + jnp.where(cohort.mask, up_e, 0)
            bits_down = bits_down + jnp.where(cohort.mask, down_e, 0)
            metrics |= _live_mean(measured, cohort, count)

        # Dead slots point behind the last client, where the scatter drops them.
        live = jnp.where(cohort.mask, cohort.ids, n)
        clients = tree.scatter(state.clients, live, rows)
        return (
            RoundState(
                round=state.round + 1,
                server=server,
                clients=clients,
                shared=tuple(casts),
                sampler=sampler_state,
                hp=state.hp,
            ),
            RoundInfo(metrics, bits_up, bits_down, cohort),
        )

    return Simulation(init, step, defaults, backend)


def rehearsal(
    algo: Algorithm,
) -> Callable[[PyTree, PyTree, FederatedData, Key], list[tuple[PyTree, PyTree]]]:
    """One client's round as a function of (server, mine, data, key).

    It returns the messages down and up of every exchange, in order: for their shapes.
    """

    def play(server: PyTree, mine: PyTree, data: FederatedData, key: Key) -> list:
        view = views(data, jnp.zeros((), jnp.int32))
        messages = []
        for exchange in algo.exchanges:
            down = exchange.broadcast(server)
            up, mine, _ = exchange.client(down, mine, view, key)
            server = exchange.server(server, Aggregate(up, up, jnp.ones((), int), 1))
            messages.append((down, up))
        return messages

    return play


def _live_mean(metrics: PyTree, cohort: Cohort, count: jax.Array) -> PyTree:
    """Means over the live slots."""
    return jax.tree.map(
        lambda leaf: live(leaf, cohort).sum(0) / jnp.maximum(count, 1), metrics
    )


def _put(items: tuple, index: int, item: Any) -> tuple:
    return (*items[:index], item, *items[index + 1 :])
