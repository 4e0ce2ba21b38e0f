"""Adaptive client selection (ACS), in closed form.

Wang et al., "FedMoS: Taming Client Drift in Federated Learning with Double Momentum and
Adaptive Selection", INFOCOM 2023, Algorithm 2 (with the `break` after its line 12).
The same matrix is Algorithm 1 of Fraboni et al., "Clustered Sampling", ICML 2021.

Algorithm 2 pours M p_i of every client, largest first, into M bins of mass 1 and draws
one client per bin. On a line, client i owns an interval of length M p_i of [0, M) and
bin m is [m, m + 1): stratified sampling. p_i = D_i / D, so stretched by D the borders
C_i M (C = cumulative sizes) and the bin [m D, (m + 1) D) are integers, and a uniform
integer V in [0, D) draws exactly:

    client of bin m = the owner of example floor((m D + V) / M) in the sorted order.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.samplers.cohort import check_cohort, merge_duplicates
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler

_LARGEST = 32768  # M^2 + D must fit 32 unsigned bits, with D < 2^31


class State(NamedTuple):
    order: jax.Array  # [N] client ids, largest share first
    ends: jax.Array  # [N] cumulative sizes in that order


def adaptive(cohort: int) -> Sampler:
    """One draw from each of `cohort` bins of equal mass; weight 1/M each.

    Unbiased, with Var w_i = p_i / M - sum_m p_im^2 / M^2, never above multinomial's.
    O(N log N) once, O(M log N) per round, no M x N matrix.
    """
    check_cohort(cohort)
    if cohort > _LARGEST:
        raise ValueError(f"cohort must be at most {_LARGEST} for ACS: got {cohort}")

    def init(data: FederatedData, key: Key) -> State:
        order = jnp.argsort(-data.size, stable=True)  # ties by client index
        return State(order, jnp.cumsum(data.size[order]))

    def sample(
        state: State, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, State]:
        total = data.order.shape[0]
        draws = jax.random.randint(key, (cohort,), 0, total).astype(jnp.uint32)
        # floor((m D + V) / M) without leaving 32 bits: D = whole * M + rest
        whole, rest = divmod(total, cohort)
        m = jnp.arange(cohort, dtype=jnp.uint32)
        example = m * jnp.uint32(whole) + (m * jnp.uint32(rest) + draws) // jnp.uint32(
            cohort
        )
        slot = jnp.searchsorted(state.ends, example.astype(jnp.int32), side="right")
        weights = jnp.full(cohort, 1 / cohort)
        return merge_duplicates(state.order[slot], weights), state

    return Sampler(init, sample)
