"""Samplers whose groups of clients are formed on the host, between blocks of rounds.

Clustered adaptive selection (CACS): Wang et al., INFOCOM 2023 [wang2023fedmos].
Clustered sampling: Fraboni et al., ICML 2021 [fraboni2021clustered], Algorithm 2 (its
Algorithm 1 is `adaptive`).

A sampler's draw stays pure; what the host finds out goes into the sampler's *state*.
"""

from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.channels.identity import dense
from fedjax_mos.components import cite
from fedjax_mos.samplers.adaptive import State, adaptive, in_order
from fedjax_mos.samplers.clusters import (
    DISTANCES,
    Distance,
    check_clusters,
    client_gradients,
    cluster_order,
    similar_bins,
)
from fedjax_mos.samplers.cohort import check_choice, check_cohort, merge_duplicates
from fedjax_mos.samplers.everyone import everyone
from fedjax_mos.types import (
    Cohort,
    FederatedData,
    HostAssisted,
    HostUpdate,
    Key,
    RoundState,
    Sampler,
    SamplerTools,
    SamplerView,
    Updated,
)

Warm = Literal["counted", "kept", "discarded"]


class Warmed(NamedTuple):
    """The state of `adaptive`, and what the extra rounds before the first draw with."""

    order: jax.Array
    ends: jax.Array
    key: jax.Array


@cite("wang2023fedmos")
def clustered_adaptive(
    tools: SamplerTools,
    *,
    warm_up: int = 4,
    clusters: int = 0,
    distance: Distance = "cosine",
    warm: Warm = "counted",
) -> HostAssisted:
    """CACS: `adaptive` on the clients ordered by cluster of their gradients.

    After `warm_up` rounds with every client each of them is sent the model and returns
    its gradient there, which is counted. Ward's tree on their cosine distances is cut
    into `clusters`, by default (0) as many as the cohort has slots. The paper (Section
    IV) names no linkage and no number of clusters; its released program has these, on
    arccos (`distance="angle"`). The rounds of the warm-up are "counted" among those of
    the run, or extra ones before it (their bits count in round 1) whose model is "kept"
    or "discarded". The paper speaks of T_e extra rounds, its program discards the
    model.
    """
    if warm_up < 1:
        raise ValueError(f"warm_up must be at least 1: got {warm_up}")
    if clusters < 0:
        raise ValueError(f"clusters must not be negative: got {clusters}")
    check_choice("distance", distance, DISTANCES)
    check_choice("warm", warm, ("counted", "kept", "discarded"))
    by_mass, clusters = adaptive(tools), clusters or tools.cohort
    counted = warm == "counted"

    def init(view: SamplerView, key: Key) -> State | Warmed:
        check_clusters(clusters, view.data.size.shape[0])
        first = in_order(view.data)
        return first if counted else Warmed(*first, jax.random.key_data(key))

    def compute(data: FederatedData, state: RoundState) -> Updated:
        x = state.server.params
        gradients = _client_gradients(tools.loss, x, data)
        order = cluster_order(gradients, data.mass, clusters, distance=distance)
        # Everyone receives the model and sends a gradient.
        bits = data.size.shape[0] * int(dense(x).bits)
        found = in_order(data, order)
        after = found if counted else Warmed(*found, state.sampler.key)
        return Updated(after, bits, bits)

    rounds = {"warm_up": warm_up} if counted else {"extra": warm_up}
    return HostAssisted(
        Sampler(init, by_mass.sample),
        HostUpdate(compute, warm=everyone(tools), keep=warm == "kept", **rounds),
    )


@cite("fraboni2021clustered")
def clustered(
    tools: SamplerTools, *, every: int = 1, distance: Distance = "angle"
) -> HostAssisted:
    """One draw from each of M bins of similar clients; weight 1/M each. Unbiased.

    Clients are compared by the message they sent last, y_i - x for most methods, which
    `tracked` keeps (zero before their first round); bins are formed anew every `every`
    rounds. The released program hands Ward's method the rows of the distance matrix as
    if they were points; here it gets the distances.
    """
    if every < 1:
        raise ValueError(f"every must be at least 1: got {every}")
    check_choice("distance", distance, DISTANCES)

    def compute(data: FederatedData, state: RoundState) -> Updated:
        last = state.clients.mine.last
        bins = similar_bins(last, data.mass, tools.cohort, distance=distance)
        return Updated(jnp.asarray(bins.cumsum(axis=1), data.mass.dtype))

    return HostAssisted(
        from_bins(tools.cohort), HostUpdate(compute, every), needs_last_message=True
    )


_client_gradients = jax.jit(client_gradients, static_argnums=0)


def from_bins(cohort: int) -> Sampler:
    """One draw from each of M bins; the state holds their cumulative masses [M, N].

    Every row ends with D, the mass of all clients; integers, so draws are exact. At
    first every bin is the whole population: multinomial sampling.
    """
    check_cohort(cohort)

    def init(view: SamplerView, key: Key) -> jax.Array:
        mass = view.data.mass
        check_clusters(1, mass.shape[0])
        return jnp.tile(jnp.cumsum(mass), (cohort, 1))

    def sample(
        ends: jax.Array, view: SamplerView, key: Key
    ) -> tuple[Cohort, jax.Array]:
        draws = jax.random.randint(key, (cohort,), 0, ends[0, -1])
        ids = jax.vmap(partial(jnp.searchsorted, side="right"))(ends, draws)
        return merge_duplicates(ids, jnp.full(cohort, 1 / cohort)), ends

    return Sampler(init, sample)
