"""NAME: which examples belong to which client, in one line.

Authors, venue year [key of references.bib].

A partition is ordinary NumPy: it runs once, before anything is compiled.

Use it as `federate(x, y, name(y, clients=100, seed=0))`.
"""

import numpy as np
from numpy.typing import ArrayLike

from fedjax_mos.components import cite
from fedjax_mos.data import Partition
from fedjax_mos.types import Unit


@cite("key_of_the_paper")  # an entry of references.bib
def name(labels: ArrayLike, clients: int, seed: int, *, mixed: Unit = 0.1) -> Partition:
    """NAME. Label skew, size skew or both; whether all examples are dealt.

    Options are keyword-only, with defaults, and their annotations give their ranges.
    """
    # Deterministic in the seed, and in nothing else.
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    if not 1 <= clients <= len(labels):
        raise ValueError(
            f"clients must lie in [1, {len(labels)}], the number of examples: "
            f"got {clients}"
        )
    # Here: sorted by label, but for a fraction `mixed` of the examples.
    place = labels.argsort(kind="stable").argsort().astype(float)
    moved = rng.random(len(labels)) < mixed
    place[moved] = rng.uniform(0, len(labels), moved.sum())
    order = place.argsort(kind="stable")
    size = np.full(clients, len(labels) // clients)
    size[: len(labels) % clients] += 1
    # Positions of examples, client after client, and how many each client has. No
    # client is empty; sizes sum to the length of the order.
    return Partition(order, size)
