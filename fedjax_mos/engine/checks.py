"""What the engine refuses before it computes."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import Cohort, Key, Params


def typed_key(key: Key) -> Key:
    """`key`, also if it is one of the old kind, made by `jax.random.PRNGKey`."""
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    return jax.random.wrap_key_data(key)


def check_params(params: Params) -> None:
    """Refuse a model's variables that are more than its parameters."""
    if not isinstance(params, Mapping) or "params" not in params:
        return
    extra = sorted(str(name) for name in params if name != "params")
    if extra:
        raise ValueError(
            f"params must be a model's parameters alone: these are variables with "
            f"{', '.join(extra)} besides, which no method averages; use GroupNorm "
            "instead of BatchNorm and give variables['params']"
        )


def check_cohort(cohort: Cohort, clients: int) -> None:
    """Raise a ValueError for a concrete cohort that no sampler may draw."""
    if isinstance(cohort.ids, jax.core.Tracer):
        return
    ids, mask = np.asarray(cohort.ids), np.asarray(cohort.mask)
    if not ids.shape == mask.shape == np.shape(cohort.weights) or ids.ndim != 1:
        raise ValueError(
            "a cohort's ids, weights and mask must have one entry per slot: got shapes "
            f"{ids.shape}, {np.shape(cohort.weights)}, {mask.shape}"
        )
    wrong = ids[(ids < 0) | (ids >= clients)]
    if wrong.size:
        raise ValueError(
            f"a cohort's ids must lie in [0, {clients - 1}]: got {wrong[0]}"
        )
    chosen, count = np.unique(ids[mask], return_counts=True)
    if (count > 1).any():
        raise ValueError(
            "a live client must have one slot of a cohort: client "
            f"{chosen[count > 1][0]} has {count.max()}"
        )
