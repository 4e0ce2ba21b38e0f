"""Helpers that samplers share."""

import jax
import jax.numpy as jnp

from fedjax_mos.types import Cohort, FederatedData, Key


def merge_duplicates(ids: jax.Array, weights: jax.Array) -> Cohort:
    """One live slot per client, carrying its summed weight; the others are dead.

    >>> merge_duplicates(jnp.array([4, 2, 4]), jnp.array([0.2, 0.3, 0.5])).weights
    Array([0.3, 0.7, 0. ], dtype=float32)
    """
    order = jnp.argsort(ids)
    ids = ids[order]
    first = jnp.concatenate([jnp.ones(1, bool), ids[1:] != ids[:-1]])
    group = jnp.cumsum(first) - 1  # which distinct client a draw belongs to
    summed = jnp.zeros_like(weights).at[group].add(weights[order])
    return Cohort(ids, jnp.where(first, summed[group], 0), first)


def subset(key: Key, clients: int, size: int) -> jax.Array:
    """`size` distinct clients in random order, every ordered choice equally likely."""
    k_choose, k_order = jax.random.split(key)
    if size * size > 32 * clients:  # cheaper to shuffle everybody
        return jax.random.permutation(k_choose, clients)[:size]
    # Floyd: in step j draw t from 0..j; take t, or j itself if t is already taken.
    last = jnp.arange(clients - size, clients)
    draws = jax.random.randint(k_choose, (size,), 0, last + 1)

    def choose(i: jax.Array, chosen: jax.Array) -> jax.Array:
        taken = (chosen == draws[i]).any()
        return chosen.at[i].set(jnp.where(taken, last[i], draws[i]))

    chosen = jax.lax.fori_loop(0, size, choose, jnp.full(size, -1, last.dtype))
    return jax.random.permutation(k_order, chosen)


def check_cohort(cohort: int, data: FederatedData | None = None) -> None:
    """Raise a ValueError unless 1 <= cohort <= N."""
    if cohort < 1:
        raise ValueError(f"cohort must be at least 1: got {cohort}")
    if data is not None and cohort > data.size.shape[0]:
        raise ValueError(
            f"cohort must be at most the number of clients, {data.size.shape[0]}: "
            f"got {cohort}"
        )


def check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise a ValueError unless `value` is one of `allowed`."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}: got {value!r}")
