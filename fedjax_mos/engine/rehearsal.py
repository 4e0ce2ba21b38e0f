"""An algorithm tried before it runs, and what it returns refused in plain words."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_mos.data.store import views
from fedjax_mos.types import (
    Aggregate,
    Algorithm,
    ClientView,
    Down,
    Exchange,
    FederatedData,
    Key,
    Metrics,
    Mine,
    Params,
    PyTree,
    Server,
    Up,
)


def checked(name: str, made: Any) -> Algorithm:
    """The same algorithm, which as it is traced says by its `name` what is wrong."""
    if not isinstance(made, Algorithm):
        raise ValueError(f"{name} must return an fm.Algorithm: got {_kind(made)}")
    several = isinstance(made.exchanges, tuple | list)
    if not several or not all(isinstance(one, Exchange) for one in made.exchanges):
        raise ValueError(
            f"exchanges of {name} must be a tuple of fm.Exchange, (exchange,) if it is "
            f"one: got {_kind(made.exchanges)}"
        )

    def init(params: Params, key: Key) -> tuple[Server, Mine]:
        found = made.init(params, key)
        if not _has(found, 2) or not hasattr(found[0], "params"):
            raise ValueError(
                f"init of {name} must return (server, mine), of which server has a "
                f"field params: got {_kind(found)}"
            )
        return found

    def watched(exchange: Exchange) -> Exchange:
        def client(
            down: Down, mine: Mine, view: ClientView, key: Key
        ) -> tuple[Up, Mine, Metrics]:
            found = exchange.client(down, mine, view, key)
            if not _has(found, 3):
                raise ValueError(
                    f"client of {name} must return (message, state, metrics): got "
                    f"{_kind(found)}"
                )
            if not isinstance(found[2], Mapping):
                raise ValueError(
                    f"client of {name} must return metrics as a dict of numbers by "
                    f"name: got {_kind(found[2])}"
                )
            return found

        def server(state: Server, agg: Aggregate) -> Server:
            after = exchange.server(state, agg)
            if not hasattr(after, "params"):
                raise ValueError(
                    f"server of {name} must return its state, which has a field "
                    f"params: got {_kind(after)}"
                )
            return after

        return exchange._replace(client=client, server=server)

    return Algorithm(init, tuple(map(watched, made.exchanges)))


def rehearsal(
    algo: Algorithm, name: str
) -> Callable[[PyTree, PyTree, FederatedData, Key], list[tuple[PyTree, PyTree]]]:
    """One client's round as a function of (server, mine, data, key).

    It returns the messages down and up of every exchange, in order: for their shapes.
    States must come back as they were.
    """

    def play(server: PyTree, mine: PyTree, data: FederatedData, key: Key) -> list:
        zero = jnp.zeros((), jnp.int32)
        view = views(data, zero, zero)
        before, messages = (server, mine), []
        for exchange in algo.exchanges:
            down = exchange.broadcast(server)
            up, mine, _ = exchange.client(down, mine, view, key)
            one = jnp.ones((), int)
            server = exchange.server(server, Aggregate(up, up, one, 1, key))
            messages.append((down, up))
        _check_kept(f"server of {name}", before[0], server)
        _check_kept(f"client of {name}", before[1], mine)
        return messages

    return play


def _check_kept(who: str, before: PyTree, after: PyTree) -> None:
    """Refuse a state that is not made as it was: it is kept for the next round."""
    must = f"{who} must return a state of the structure, shapes and types that it had"
    trees: list[Any] = [jax.tree.structure(state) for state in (before, after)]
    if trees[0] != trees[1]:
        raise ValueError(f"{must}, {trees[0]}: got {trees[1]}")
    named = jax.tree_util.tree_leaves_with_path(before)
    for (path, leaf), other in zip(named, jax.tree.leaves(after), strict=True):
        old, new = map(_typed, (leaf, other))
        if old != new:
            at = jax.tree_util.keystr(path)
            raise ValueError(f"{must}, {old}{f' at {at}' * bool(at)}: got {new}")


def _has(found: Any, items: int) -> bool:
    return isinstance(found, tuple) and len(found) == items


def _typed(leaf: Any) -> str:
    """Type and shape.

    >>> _typed(jax.numpy.zeros(3))
    'float32[3]'
    """
    found = jax.typeof(leaf)
    return f"{found.dtype}{list(found.shape)}"


def _kind(value: Any) -> str:
    """What somebody returned, without the numbers."""
    if type(value) is tuple:
        return f"a tuple of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"
