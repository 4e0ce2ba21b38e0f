"""One federated round as one pure function: the only place where components meet."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos import tree
from fedjax_mos.backends.slots import live
from fedjax_mos.channels.identity import dense
from fedjax_mos.components import Spec
from fedjax_mos.data.store import views
from fedjax_mos.engine.checks import check_cohort, check_params, typed_key
from fedjax_mos.engine.dropping import dropped, if_any, kept, live_mean, or_nothing
from fedjax_mos.engine.hyperparameters import with_hp
from fedjax_mos.engine.rehearsal import rehearsal
from fedjax_mos.schedule import at_round
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    Backend,
    Channel,
    ClientView,
    Cohort,
    FederatedData,
    Hp,
    Key,
    Metrics,
    Params,
    PyTree,
    RoundInfo,
    RoundState,
    Row,
    Sampler,
    SamplerState,
    SamplerTools,
    SamplerView,
    Shared,
)

# Folded into a key besides what `split` takes from it.
_INIT, _SERVER = 0x49, 0x53

Init = Callable[..., RoundState]  # (params, data, key, hp=None, rows=None)
Round = Callable[[FederatedData, RoundState, Key], tuple[RoundState, RoundInfo]]
Draw = Callable[[FederatedData, RoundState, Key], tuple[Cohort, SamplerState]]


class Built(NamedTuple):
    """The components of a round, made with that round's hyperparameters."""

    algorithm: Algorithm
    sampler: Sampler
    uplink: Channel
    downlink: Channel
    broadcast: Channel


def rounds_of(
    specs: Mapping[str, Spec],
    cohort: int,
    backend: Backend,
    drop_nonfinite: bool = False,
) -> tuple[Init, Round, Draw]:
    """The pure functions `init`, `step` and `draw` of such a simulation."""

    def hp_at(hp: Hp, round: jax.Array) -> Hp:
        now = at_round(hp, round)
        return specs["decay"].build(**now["decay"])(now, round)

    def build(hp: Hp) -> Built:
        # Ordinary factories over tracers: costs trace time only, nothing at run time.
        work = specs["local"].build(**hp["local"])
        tools = {
            "algorithm": work,
            "sampler": SamplerTools(cohort, work.loss),
        }
        return Built(
            *(
                specs[kind].build(
                    *([tools[kind]] if kind in tools else []),
                    **{name: hp[kind][name] for name in specs[kind].hp},
                )
                for kind in Built._fields
            )
        )

    def init(
        params: Params,
        data: FederatedData,
        key: Key,
        hp: Mapping[str, Any] | None = None,
        rows: int | None = None,
    ) -> RoundState:
        """The state before round 0, with `hp` for some of the default numbers.

        There are as many rows as clients, all alike, unless `rows` says how many.
        """
        check_params(params)
        key = typed_key(key)
        # Not weakly typed, as they come back: else the second block compiles again.
        params = jax.tree.map(lambda p: jnp.asarray(p, jnp.result_type(p)), params)
        numbers = with_hp(specs, hp, tree.float_dtype(params))
        start = jnp.zeros((), jnp.int32)
        made = build(hp_at(numbers, start))
        server, mine = made.algorithm.init(params, jax.random.fold_in(key, _INIT))
        played = rehearsal(made.algorithm, specs["algorithm"].name)
        messages = optax.tree.zeros_like(
            jax.eval_shape(played, server, mine, data, key)
        )
        downs, ups = zip(*messages, strict=True)
        dense(downs), dense(ups)  # raises unless the bits of a round fit 32 bits
        row = Row(mine, tuple(map(made.uplink.init, ups)), _inits(made.downlink, downs))
        return RoundState(
            round=start,
            server=server,
            clients=backend.rows.make(row, rows or data.size.shape[0]),
            shared=_inits(made.broadcast, downs),
            sampler=made.sampler.init(SamplerView(start, server, data), key),
            hp=numbers,
        )

    def one_client(
        e: int, shared: Shared, row: Row, view: ClientView
    ) -> tuple[PyTree, Row, PyTree]:
        """Exchange `e` of ONE client, start to end."""
        made = build(shared.hp)
        k_wire = jax.random.fold_in(jax.random.fold_in(shared.k_wires, view.id), e)
        k_down, k_up = jax.random.split(k_wire)
        got, down_state = made.downlink.send(row.down[e], shared.wire, k_down, None)
        message, mine, measured = made.algorithm.exchanges[e].client(
            got.value, row.mine, view, jax.random.fold_in(shared.k_local, view.id)
        )
        wire = dense(message, shared.travels_up)
        sent, up_state = made.uplink.send(row.up[e], wire, k_up, got.value)
        row = Row(mine, _put(row.up, e, up_state), _put(row.down, e, down_state))
        rules = {"fired_up": sent.fired, "fired_down": got.fired}
        measured = measured | {n: f for n, f in rules.items() if f is not None}
        value, finite = sent.value, None
        if drop_nonfinite:
            value, finite = or_nothing(value, row)
        return value, row, (measured, sent.bits, got.bits, finite)

    def draw(
        data: FederatedData, state: RoundState, key: Key
    ) -> tuple[Cohort, SamplerState]:
        """Who takes part in round `state.round`, and the sampler's state after it."""
        return _drawn(build(hp_at(state.hp, state.round)), data, state, key)

    def step(
        data: FederatedData, state: RoundState, key: Key
    ) -> tuple[RoundState, RoundInfo]:
        """Round `state.round`: sample, broadcast, local work, aggregate."""
        hp = hp_at(state.hp, state.round)
        made, n = build(hp), data.size.shape[0]
        k_server = jax.random.fold_in(key, _SERVER)
        _, k_cast, k_local, k_wires = jax.random.split(key, 4)
        cohort, sampler_state = _drawn(made, data, state, key)
        if not backend.traced:
            check_cohort(cohort, n)
        at = cohort.ids if cohort.places is None else cohort.places
        rows = backend.rows.take(state.clients, at)
        view = views(data, cohort.ids, state.round)
        chosen, server, casts = cohort, state.server, []
        slots: Metrics = {}
        bits_up = bits_down = jnp.zeros(cohort.ids.shape, jnp.uint32)

        for e, exchange in enumerate(made.algorithm.exchanges):
            down, up = (
                (True, True) if not exchange.travels else exchange.travels(server)
            )
            wire, cast_state = made.broadcast.send(
                state.shared[e],
                dense(exchange.broadcast(server), down),
                jax.random.fold_in(k_cast, e),
                None,
            )
            casts.append(cast_state)
            shared = Shared(hp, wire, k_local, k_wires, up)
            (mean, total), rows, (measured, up_e, down_e, finite) = backend.map(
                partial(one_client, e), shared, rows, view, cohort
            )
            bits_up = bits_up + jnp.where(cohort.mask, up_e, 0)
            bits_down = bits_down + jnp.where(cohort.mask, down_e, 0)
            if finite is not None:
                mean, cohort = kept(mean, cohort, finite)
            k_own, count = jax.random.fold_in(k_server, e), cohort.mask.sum()
            after = exchange.server(server, Aggregate(mean, total, count, n, k_own))
            server = after if finite is None else if_any(count, after, server)
            slots |= {name: live(leaf, chosen) for name, leaf in measured.items()}

        # Dead slots point behind the last client, where the scatter drops them.
        owners = jnp.where(cohort.mask, at, n)
        return (
            RoundState(
                round=state.round + 1,
                server=server,
                clients=backend.rows.put(state.clients, owners, rows),
                shared=tuple(casts),
                sampler=sampler_state,
                hp=state.hp,
            ),
            RoundInfo(
                live_mean(slots, chosen, cohort) | dropped(chosen, cohort),
                bits_up,
                bits_down,
                chosen,
                slots,
            ),
        )

    return init, step, draw


def _drawn(
    made: Built, data: FederatedData, state: RoundState, key: Key
) -> tuple[Cohort, SamplerState]:
    seen = SamplerView(state.round, state.server, data)
    return made.sampler.sample(state.sampler, seen, jax.random.split(key, 4)[0])


def _inits(channel: Channel, messages: tuple) -> tuple:
    return tuple(channel.init(message) for message in messages)


def _put(items: tuple, index: int, item: Any) -> tuple:
    return (*items[:index], item, *items[index + 1 :])
