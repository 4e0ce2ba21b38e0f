"""The slots of a cohort: which are alive, what they own, their number filled up."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_mos import tree
from fedjax_mos.types import ClientView, Cohort, PyTree, Row
from fedjax_mos.types.simulation import Mapped


def unless_dead(work: Callable[[], Mapped], cohort: Cohort) -> Mapped:
    """`work`, or zeros where every slot is dead: nobody reads what those do."""

    def nothing() -> Mapped:
        return jax.tree.map(jnp.zeros_like, jax.eval_shape(work))

    return jax.lax.cond(cohort.mask.any(), work, nothing)


def reduced(up: PyTree, cohort: Cohort) -> tuple[PyTree, PyTree]:
    """Weighted mean and live sum of the messages."""

    def mean(leaf: jax.Array) -> jax.Array:
        weights = cohort.weights.astype(leaf.dtype)
        # Never rounded, as some platforms do by default.
        return jnp.tensordot(weights, live(leaf, cohort), axes=1, precision="highest")

    return (
        jax.tree.map(mean, up),
        jax.tree.map(lambda leaf: live(leaf, cohort).sum(0), up),
    )


def live(leaf: jax.Array, cohort: Cohort) -> jax.Array:
    """`leaf` [M, ...] with zeros in dead slots, before any product: 0 * NaN is NaN."""
    mask = cohort.mask.reshape(-1, *[1] * (leaf.ndim - 1))
    return jnp.where(mask, leaf, 0)


def pad(slots: tuple, multiple: int) -> tuple:
    """Add dead slots, copies of the last one, up to a multiple."""
    have, (*others, cohort) = filled_up(slots, multiple)
    mask = cohort.mask & (jnp.arange(cohort.ids.shape[0]) < have)
    return (*others, Cohort(cohort.ids, cohort.weights, mask))


def filled_up(rows: PyTree, multiple: int) -> tuple[int, PyTree]:
    """How many rows there are, and those with copies of the last up to a multiple."""
    have = jax.tree.leaves(rows)[0].shape[0]
    if have % multiple == 0:
        return have, rows
    index = jnp.arange(-(-have // multiple) * multiple)
    return have, tree.gather(rows, jnp.minimum(index, have - 1))


OWN = ("id", "offset", "size", "share", "importance")  # a view's parts per slot


def own_parts(view: ClientView) -> tuple[jax.Array, ...]:
    return tuple(getattr(view, name) for name in OWN)


def with_own(view: ClientView, own: tuple) -> ClientView:
    return dataclasses.replace(view, **dict(zip(OWN, own, strict=True)))


def per_view(view: ClientView, shared: Any, own: Any) -> Any:
    """A view-shaped tree of axes or shardings."""
    one = dataclasses.replace(view, x=shared, y=shared, order=shared, round=shared)
    return with_own(one, (own,) * len(OWN))


def slot_zero(rows: Row, view: ClientView) -> tuple[Row, ClientView]:
    return tree.gather(rows, 0), with_own(view, tree.gather(own_parts(view), 0))
