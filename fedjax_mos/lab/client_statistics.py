"""Statistics over clients: nobody's accuracy says how the others fare."""

import jax
import jax.numpy as jnp

from fedjax_mos.types import Metrics

_DECILE = 0.1


def statistics(values: jax.Array, falls: bool) -> Metrics:
    """Statistics over clients of values [N]; NaN stands for a client without examples.

    `worst_decile` is the mean over the worst tenth of the clients (at least one),
    `jain` is (sum v)^2 / (n sum v^2): 1 if all have the same, 1/n if one has all.

    >>> out = statistics(jnp.array([0.5, 1.0, 0.0, jnp.nan]), falls=False)
    >>> {name: round(float(value), 3) for name, value in out.items()}["jain"]
    0.6
    """
    have = ~jnp.isnan(values)
    count = have.sum()
    known = jnp.where(have, values, 0)
    squares = (known**2).sum()  # zero: all have nothing, and so the same
    mean = known.sum() / count
    spread = jnp.where(have, (values - mean) ** 2, 0).sum() / count
    worst_first = jnp.sort(jnp.where(have, -values if falls else values, jnp.inf))
    worst = jnp.arange(len(values)) < jnp.maximum(jnp.ceil(_DECILE * count), 1)
    decile = jnp.where(worst, worst_first, 0).sum() / worst.sum()
    quantiles = {
        f"q{round(100 * q)}": jnp.nanquantile(values, q) for q in (0.1, 0.5, 0.9)
    }
    return {
        "mean": mean,
        "std": jnp.sqrt(spread),
        "worst_decile": -decile if falls else decile,
        "jain": jnp.where(squares > 0, known.sum() ** 2 / (count * squares), 1.0),
        **quantiles,
    }
