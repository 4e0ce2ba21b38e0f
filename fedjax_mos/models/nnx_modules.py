"""Modules of flax.nnx, which hold their parameters, as functions of them."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from fedjax_mos.models.functions import Model
from fedjax_mos.models.staged import check_variables
from fedjax_mos.types import Key, Params, PyTree


def from_nnx(make: Callable[[nnx.Rngs], nnx.Module]) -> Model:
    """The functions of a flax.nnx module that `make(rngs)` builds.

    A run's seed draws its parameters, an `nnx.State`: `nnx.update(module,
    result.params)` puts trained ones into a module of yours.

    >>> made = from_nnx(lambda rngs: nnx.Linear(4, 3, rngs=rngs))
    >>> params = made.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> made.apply(params, jnp.zeros((5, 4)), None).shape
    (5, 3)
    """
    abstract = nnx.eval_shape(make, nnx.Rngs(0))
    parts: tuple[Any, ...] = nnx.split(abstract, nnx.Param, nnx.RngState, ...)
    graph, _, streams, others = parts
    kinds = {type(variable).__name__ for _, variable in nnx.to_flat_state(others)}
    check_variables(dict.fromkeys(kinds))

    def init(key: Key, x: PyTree) -> Params:
        return nnx.state(make(nnx.Rngs(key)), nnx.Param)

    def apply(params: Params, x: PyTree, key: Key | None) -> jax.Array:
        module = nnx.merge(graph, params, _seeded(streams, key), others)
        module.eval() if key is None else module.train()
        return module(x)

    return Model(init, apply)


def _seeded(streams: PyTree, key: Key | None) -> PyTree:
    """Streams of random numbers, dropout's say, that begin at this key."""
    key, numbers = jax.random.key(0) if key is None else key, itertools.count()

    def begun(leaf: jax.ShapeDtypeStruct) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.fold_in(key, next(numbers)), leaf.shape)
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(begun, streams)
