"""Samplers whose groups of clients are formed on the host, between blocks of rounds.

Clustered adaptive selection (CACS): Wang et al., "FedMoS: Taming Client Drift in
Federated Learning with Double Momentum and Adaptive Selection", INFOCOM 2023. Clustered
sampling: Fraboni et al., "Clustered Sampling: Low-Variance and Improved
Representativity for Clients Selection in Federated Learning", ICML 2021, Algorithm 2
(its Algorithm 1 is `adaptive`).

A sampler's draw stays pure; what the host finds out goes into the sampler's *state*.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_mos.channels.identity import dense
from fedjax_mos.samplers.adaptive import adaptive
from fedjax_mos.samplers.clusters import (
    DISTANCES,
    Distance,
    check_clusters,
    client_gradients,
    cluster_order,
    similar_bins,
)
from fedjax_mos.samplers.cohort import check_choice, check_cohort, merge_duplicates
from fedjax_mos.types import (
    Adaptation,
    Adapted,
    Cohort,
    FederatedData,
    Key,
    Loss,
    Params,
    Revision,
    RoundState,
    Sampler,
)


def clustered_adaptive(
    cohort: int,
    loss: Loss,
    *,
    warm_up: int = 4,
    clusters: int = 0,
    distance: Distance = "cosine",
) -> Adapted:
    """CACS: `adaptive` on the clients ordered by cluster of their gradients.

    After `warm_up` rounds with every client each of them is sent the model and returns
    its gradient there, which is counted. Ward's tree on their cosine distances is cut
    into `clusters`, by default (0) as many as the cohort has slots. The paper names no
    linkage and no number of clusters; its released program has these, on arccos
    (`distance="angle"`).

    Reference: Wang et al., FedMoS, INFOCOM 2023, Section IV.
    """
    if warm_up < 1:
        raise ValueError(f"warm_up must be at least 1: got {warm_up}")
    if clusters < 0:
        raise ValueError(f"clusters must not be negative: got {clusters}")
    check_choice("distance", distance, DISTANCES)
    by_size, clusters = adaptive(cohort), clusters or cohort
    gradients_at = jax.jit(partial(client_gradients, loss))

    def init(data: FederatedData, key: Key) -> Any:
        check_clusters(clusters, data.size.shape[0])
        return by_size.init(data, key)

    def revise(data: FederatedData, state: RoundState) -> Revision:
        x = state.server.params
        order = cluster_order(
            gradients_at(x, data), data.size, clusters, distance=distance
        )
        found = adaptive(cohort, order=jnp.asarray(order, jnp.int32))
        # Everyone receives the model and sends a gradient.
        bits = data.size.shape[0] * int(dense(x).bits)
        return Revision(found.init(data, jax.random.key(0)), bits, bits)

    sampler = Sampler(init, by_size.sample)
    return Adapted(sampler, Adaptation(revise, warm_up=warm_up))


def clustered(cohort: int, *, every: int = 1, distance: Distance = "angle") -> Adapted:
    """One draw from each of M bins of similar clients; weight 1/M each. Unbiased.

    Clients are compared by the message they sent last, y_i - x for most methods, which
    `tracked` keeps (zero before their first round); bins are formed anew every `every`
    rounds. The released program hands Ward's method the rows of the distance matrix as
    if they were points; here it gets the distances.

    Reference: Fraboni et al., Clustered Sampling, ICML 2021, Algorithm 2.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1: got {every}")
    check_choice("distance", distance, DISTANCES)

    def revise(data: FederatedData, state: RoundState) -> Revision:
        last = state.clients.mine.last
        bins = similar_bins(last, data.size, cohort, distance=distance)
        return Revision(jnp.asarray(bins.cumsum(axis=1), data.size.dtype))

    return Adapted(from_bins(cohort), Adaptation(revise, every), follows=True)


def from_bins(cohort: int) -> Sampler:
    """One draw from each of M bins; the state holds their cumulative masses [M, N].

    Every row ends with D, the number of examples; integers, so draws are exact. At
    first every bin is the whole population: multinomial sampling.
    """
    check_cohort(cohort)

    def init(data: FederatedData, key: Key) -> jax.Array:
        check_clusters(1, data.size.shape[0])
        return jnp.tile(jnp.cumsum(data.size), (cohort, 1))

    def sample(
        ends: jax.Array, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, jax.Array]:
        draws = jax.random.randint(key, (cohort,), 0, ends[0, -1])
        ids = jax.vmap(partial(jnp.searchsorted, side="right"))(ends, draws)
        return merge_duplicates(ids, jnp.full(cohort, 1 / cohort)), ends

    return Sampler(init, sample)
