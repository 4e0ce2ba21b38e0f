"""Adaptive client selection (ACS), in closed form, and systematic sampling.

Wang et al., INFOCOM 2023 [wang2023fedmos], Algorithm 2 (with the `break` after its line
12). The same matrix is Algorithm 1 of Fraboni et al., ICML 2021 [fraboni2021clustered].

Algorithm 2 pours M p_i of every client, largest first, into M bins of mass 1 and draws
one client per bin. On a line, client i owns an interval of length M p_i of [0, M) and
bin m is [m, m + 1): stratified sampling. p_i = D_i / D, so stretched by D the borders
C_i M (C = cumulative masses) and the bin [m D, (m + 1) D) are integers, and a uniform
integer V in [0, D) draws exactly:

    client of bin m = the owner of unit floor((m D + V) / M) in the sorted order.

Systematic sampling shares one V among the bins.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_mos.components import cite
from fedjax_mos.samplers.cohort import check_cohort, merge_duplicates
from fedjax_mos.types import (
    ArrayLike,
    Cohort,
    FederatedData,
    Key,
    Sampler,
    SamplerTools,
    SamplerView,
)

_LARGEST = 32768  # M^2 + D must fit 32 unsigned bits, with D < 2^31


class State(NamedTuple):
    order: jax.Array  # [N] client ids, largest share first
    ends: jax.Array  # [N] cumulative masses in that order; the last is D


@cite("wang2023fedmos", "fraboni2021clustered")
def adaptive(tools: SamplerTools, *, order: tuple[int, ...] | None = None) -> Sampler:
    """One draw from each of M bins of equal mass; weight 1/M each.

    Unbiased, with Var w_i = p_i / M - sum_m p_im^2 / M^2, never above multinomial's.
    O(N log N) once, O(M log N) per round, no M x N matrix. `order`, all client ids in
    any array or sequence, replaces the order by mass.
    """
    return _stratified(tools.cohort, order, shared=False)


@cite("madow1949systematic")
def systematic(tools: SamplerTools) -> Sampler:
    """ACS with one uniform draw for all bins: the same expectation, less variance.

    Var w_i = f (1 - f) / M^2 with f the fraction of M p_i; a client's weight takes one
    of the two multiples of 1/M next to p_i. No paper here studies it.
    """
    return _stratified(tools.cohort, None, shared=True)


def in_order(data: FederatedData, order: ArrayLike | None = None) -> State:
    """The state for clients in this order; by default largest first, then by index."""
    by_mass = jnp.argsort(-data.mass, stable=True)
    chosen = by_mass if order is None else jnp.asarray(order, by_mass.dtype)
    if chosen.shape != by_mass.shape:
        raise ValueError(
            f"order must hold all client ids, shape {by_mass.shape}: "
            f"got shape {chosen.shape}"
        )
    return State(chosen, jnp.cumsum(data.mass[chosen]))


def _stratified(cohort: int, order: ArrayLike | None, shared: bool) -> Sampler:
    check_cohort(cohort)
    if cohort > _LARGEST:
        raise ValueError(f"cohort must be at most {_LARGEST} for ACS: got {cohort}")

    def init(view: SamplerView, key: Key) -> State:
        return in_order(view.data, order)

    def sample(state: State, view: SamplerView, key: Key) -> tuple[Cohort, State]:
        total = state.ends[-1]
        draws = jax.random.randint(key, () if shared else (cohort,), 0, total)
        unit = owners(draws, total, cohort)
        slot = jnp.searchsorted(state.ends, unit, side="right")
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
