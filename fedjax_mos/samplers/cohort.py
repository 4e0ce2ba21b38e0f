"""Helpers of samplers that draw with replacement, and checks of the cohort's size."""

import jax
import jax.numpy as jnp

from fedjax_mos.types import Cohort, FederatedData


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


def check_cohort(cohort: int, data: FederatedData | None = None) -> None:
    """Raise a ValueError unless 1 <= cohort <= N."""
    if cohort < 1:
        raise ValueError(f"cohort must be at least 1: got {cohort}")
    if data is not None and cohort > data.size.shape[0]:
        raise ValueError(
            f"cohort must be at most the number of clients, {data.size.shape[0]}: "
            f"got {cohort}"
        )
