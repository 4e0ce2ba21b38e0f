"""Clients whose update is not finite, left out of a round.

What such a client sends does not count (its bits do), its slot is dead from then on, so
that its row stays what it was, and the weights of the others grow to the same sum.
"""

import jax
import jax.numpy as jnp

from fedjax_mos.backends.slots import live
from fedjax_mos.types import Cohort, Metrics, Row, Server, Up


def or_nothing(message: Up, row: Row) -> tuple[Up, jax.Array]:
    """One client's message, or zeros; whether it and the new row are finite."""
    leaves = [leaf for leaf in jax.tree.leaves((message, row)) if _is_float(leaf)]
    finite = jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]).all()
    return jax.tree.map(lambda leaf: jnp.where(finite, leaf, 0), message), finite


def kept(mean: Up, cohort: Cohort, finite: jax.Array) -> tuple[Up, Cohort]:
    """The mean over the clients that are left, and their cohort.

    With w the weights and S' the slots left of S: w_i <- w_i sum_S w / sum_S' w.
    """
    left = cohort._replace(mask=cohort.mask & finite)
    all_weights, weights = (live(c.weights, c).sum() for c in (cohort, left))
    factor = jnp.where(weights > 0, all_weights / jnp.where(weights > 0, weights, 1), 1)
    mean = jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), mean)
    return mean, left._replace(weights=cohort.weights * factor)


def if_any(count: jax.Array, after: Server, before: Server) -> Server:
    """The server's next state, or the one before where nobody is left."""
    return jax.tree.map(lambda a, b: jnp.where(count > 0, a, b), after, before)


def live_mean(metrics: Metrics, chosen: Cohort, cohort: Cohort) -> Metrics:
    """Means over the live slots; of a round that dropped everyone none is known."""
    count = jnp.maximum(cohort.mask.sum(), 1)
    means = {n: live(leaf, cohort).sum(0) / count for n, leaf in metrics.items()}
    if cohort is chosen:
        return means
    nobody = chosen.mask.any() & ~cohort.mask.any()
    return {n: jnp.where(nobody, jnp.nan, mean) for n, mean in means.items()}


def dropped(chosen: Cohort, cohort: Cohort) -> Metrics:
    """The share of those chosen that were dropped, where that may happen."""
    if cohort is chosen:
        return {}
    return {"dropped": 1 - cohort.mask.sum() / jnp.maximum(chosen.mask.sum(), 1)}


def _is_float(leaf: jax.Array) -> bool:
    return jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)
