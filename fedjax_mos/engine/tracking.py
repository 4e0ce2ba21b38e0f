"""An algorithm that remembers what every client sent last.

For samplers that compare clients (`samplers.clustered`): Fraboni et al., ICML 2021
[fraboni2021clustered], call y_i - x a client's representative gradient.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.types import (
    Algorithm,
    ClientView,
    Down,
    Exchange,
    Key,
    Metrics,
    Mine,
    Params,
    Server,
    Up,
)


class Tracked(NamedTuple):
    last: Params  # y_i - x of the client's last round; zero before its first
    inner: Mine


def tracked(algorithm: Algorithm) -> Algorithm:
    """`algorithm`, with what every client sent last in its own state.

    Of the message of the last exchange, the first tree of the model's shape: y_i - x,
    or the direction that a method sends in its place, before any channel. One more tree
    per client; nothing else changes.
    """

    def init(params: Params, key: Key) -> tuple[Server, Tracked]:
        server, mine = algorithm.init(params, key)
        return server, Tracked(optax.tree.zeros_like(params), mine)

    def following(exchange: Exchange, final: bool) -> Exchange:
        def client(
            down: Down, mine: Tracked, view: ClientView, key: Key
        ) -> tuple[Up, Tracked, Metrics]:
            up, inner, metrics = exchange.client(down, mine.inner, view, key)
            last = leading(up, mine.last) if final else mine.last
            return up, Tracked(last, inner), metrics

        return exchange._replace(client=client)

    *before, last = algorithm.exchanges
    exchanges = [following(e, final=False) for e in before]
    return Algorithm(init, (*exchanges, following(last, final=True)))


def leading(message: Up, model: Params) -> Params:
    """The first tree of the model's shape in a message."""
    wanted, tree = jax.tree.flatten(model)
    found = jax.tree.leaves(message)[: len(wanted)]
    if [jnp.shape(leaf) for leaf in found] != [leaf.shape for leaf in wanted]:
        raise ValueError(
            "the messages of this method do not begin with a tree of the model's shape"
        )
    return jax.tree.unflatten(tree, found)
