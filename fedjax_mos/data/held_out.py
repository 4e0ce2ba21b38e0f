"""Part of every client's examples, set aside for its own evaluation."""

import jax.numpy as jnp
import numpy as np

from fedjax_mos.types import FederatedData


def set_aside(
    data: FederatedData, share: float, seed: int
) -> tuple[FederatedData, FederatedData]:
    """What clients train on, and what they are measured on: stores of the same clients.

    Each client gives up floor(share x its size) of its examples, drawn at random; one
    that has too few keeps them all. Examples stay where they are.

    >>> from fedjax_mos.data.store import federate
    >>> y = np.zeros(10, int)
    >>> train, own = set_aside(federate(np.zeros((10, 1)), y), 0.3, seed=0)
    >>> train.size.tolist(), own.size.tolist()
    ([7], [3])
    """
    if not 0 < share < 1:
        raise ValueError(f"held_out must lie in (0, 1): got {share}")
    order, offset, size = (np.asarray(a) for a in (data.order, data.offset, data.size))
    given = np.floor(share * size + 1e-9).astype(int)
    if not given.any():
        raise ValueError(
            f"held_out must leave some client an example to be measured on: {share} of "
            f"the largest client's {size.max()} examples is none"
        )
    # Shuffle every client's positions: sort by (client, a random number).
    owner = np.repeat(np.arange(len(size)), size)
    drawn = np.random.default_rng(seed).random(len(order))
    shuffled = order[np.lexsort((drawn, owner))]
    place = np.arange(len(order)) - np.repeat(offset, size)
    aside = place < np.repeat(given, size)
    return (
        _part(data, shuffled[~aside], size - given),
        _part(data, shuffled[aside], given),
    )


def _part(data: FederatedData, order: np.ndarray, size: np.ndarray) -> FederatedData:
    return FederatedData(
        data.x,
        data.y,
        jnp.asarray(order, jnp.int32),
        jnp.asarray(np.cumsum(size) - size, jnp.int32),
        jnp.asarray(size, jnp.int32),
        largest=int(size.max()),
        given_mass=data.given_mass,
    )
