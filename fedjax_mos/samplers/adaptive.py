"""Adaptive client selection (ACS), in closed form, and systematic sampling.

Wang et al., "FedMoS: Taming Client Drift in Federated Learning with Double Momentum and
Adaptive Selection", INFOCOM 2023, Algorithm 2 (with the `break` after its line 12).
The same matrix is Algorithm 1 of Fraboni et al., "Clustered Sampling", ICML 2021.

Algorithm 2 pours M p_i of every client, largest first, into M bins of mass 1 and draws
one client per bin. On a line, client i owns an interval of length M p_i of [0, M) and
bin m is [m, m + 1): stratified sampling. p_i = D_i / D, so stretched by D the borders
C_i M (C = cumulative sizes) and the bin [m D, (m + 1) D) are integers, and a uniform
integer V in [0, D) draws exactly:

    client of bin m = the owner of example floor((m D + V) / M) in the sorted order.

Systematic sampling shares one V among the bins.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.samplers.cohort import check_cohort, merge_duplicates
from fedjax_mos.types import Cohort, FederatedData, Key, Params, Sampler

_LARGEST = 32768  # M^2 + D must fit 32 unsigned bits, with D < 2^31


class State(NamedTuple):
    order: jax.Array  # [N] client ids, largest share first
    ends: jax.Array  # [N] cumulative sizes in that order; the last is D


def adaptive(cohort: int, *, order: jax.Array | None = None) -> Sampler:
    """One draw from each of `cohort` bins of equal mass; weight 1/M each.

    Unbiased, with Var w_i = p_i / M - sum_m p_im^2 / M^2, never above multinomial's.
    O(N log N) once, O(M log N) per round, no M x N matrix. `order` replaces the order
    by size (clustered selection).

    Reference: Wang et al., FedMoS, INFOCOM 2023.
    """
    return _stratified(cohort, order, shared=False)


def systematic(cohort: int) -> Sampler:
    """ACS with one uniform draw for all bins: the same expectation, less variance.

    Var w_i = f (1 - f) / M^2 with f the fraction of M p_i; a client's weight takes one
    of the two multiples of 1/M next to p_i. No paper here studies it.

    Reference: Madow, "On the Theory of Systematic Sampling", 1949.
    """
    return _stratified(cohort, None, shared=True)


def _stratified(cohort: int, order: jax.Array | None, shared: bool) -> Sampler:
    check_cohort(cohort)
    if cohort > _LARGEST:
        raise ValueError(f"cohort must be at most {_LARGEST} for ACS: got {cohort}")

    def init(data: FederatedData, key: Key) -> State:
        by_size = jnp.argsort(-data.size, stable=True)  # ties by client index
        chosen = by_size if order is None else jnp.asarray(order)
        return State(chosen, jnp.cumsum(data.size[chosen]))

    def sample(
        state: State, key: Key, params: Params, data: FederatedData
    ) -> tuple[Cohort, State]:
        total = state.ends[-1]
        draws = jax.random.randint(key, () if shared else (cohort,), 0, total)
        example = owners(draws, total, cohort)
        slot = jnp.searchsorted(state.ends, example, side="right")
        weights = jnp.full(cohort, 1 / cohort)
        return merge_duplicates(state.order[slot], weights), state

    return Sampler(init, sample)


def owners(draws: jax.Array, total: jax.Array, cohort: int) -> jax.Array:
    """floor((m D + V) / M) for m = 0..M-1, without leaving 32 bits."""
    whole, rest = (part.astype(jnp.uint32) for part in jnp.divmod(total, cohort))
    m = jnp.arange(cohort, dtype=jnp.uint32)
    # D = whole M + rest
    carried = (m * rest + draws.astype(jnp.uint32)) // jnp.uint32(cohort)
    return (m * whole + carried).astype(jnp.int32)
