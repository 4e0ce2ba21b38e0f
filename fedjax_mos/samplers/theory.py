"""What is known of the weights before a client is drawn: exact moments per sampler.

Wang et al., INFOCOM 2023 [wang2023fedmos], Section IV: with p_im the probability that
draw m of M is client i and w_i = (times drawn) / M, Eq. (25) is

    E[w_i^2] = (M p_i + M^2 p_i^2 - sum_m p_im^2) / M^2,   so
    Var w_i  = p_i / M - sum_m p_im^2 / M^2.

All of it is host work in NumPy; masses are whole numbers, so a matrix is exact before
its last division.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fedjax_mos.components import name_of
from fedjax_mos.data.store import checked_mass
from fedjax_mos.samplers.adaptive import adaptive, systematic
from fedjax_mos.samplers.bernoulli import bernoulli, size_distribution
from fedjax_mos.samplers.clustered import clustered_adaptive
from fedjax_mos.samplers.cohort import check_choice, check_cohort
from fedjax_mos.samplers.everyone import everyone
from fedjax_mos.samplers.multinomial import multinomial
from fedjax_mos.samplers.subset_sums import independent_tables, uniform_tables
from fedjax_mos.samplers.uniform import uniform, uniform_release
from fedjax_mos.signatures import Factory
from fedjax_mos.types import ArrayLike

_NODES = 96  # of the integral over time


class Moments(NamedTuple):
    """Mean and variance of every client's weight, and its share p_i."""

    share: np.ndarray  #: [N] p_i
    mean: np.ndarray  #: [N] of the weight
    variance: np.ndarray  #: [N] of the weight

    @property
    def second(self) -> np.ndarray:
        """E[w_i^2], what Eq. (25) is about."""
        return self.variance + self.mean**2

    @property
    def bias(self) -> np.ndarray:
        """E[w_i] - p_i; zero for an unbiased sampler."""
        return self.mean - self.share

    @property
    def total(self) -> float:
        """sum_i Var w_i."""
        return float(self.variance.sum())


def draw_matrix(
    mass: ArrayLike, cohort: int, order: ArrayLike | None = None
) -> np.ndarray:
    """[M, N] p_im of `adaptive`: FedMoS, Algorithm 2, for clients of these masses.

    Client i owns an interval of length M p_i of [0, M), the heaviest first or as
    `order` says; p_im is its overlap with [m, m + 1). Dense, M N numbers, though only
    M + N - 1 of them are not zero: for pictures and proofs, not for a million clients.

    >>> draw_matrix([1, 3, 2], 2)
    array([[0.        , 1.        , 0.        ],
           [0.33333333, 0.        , 0.66666667]])
    """
    mass = _checked(mass, cohort)
    chosen = np.argsort(-mass, kind="stable") if order is None else np.asarray(order)
    if sorted(chosen.tolist()) != list(range(len(mass))):
        raise ValueError(
            f"order must hold every client id, 0 to {len(mass) - 1}, once: "
            f"got {order!r}"
        )
    total = int(mass.sum())
    ends = np.cumsum(mass[chosen]) * cohort  # in units of 1 / D
    start = np.arange(cohort)[:, None] * total
    first = np.maximum(ends - mass[chosen] * cohort, start)
    matrix = np.zeros((cohort, len(mass)))
    matrix[:, chosen] = np.maximum(np.minimum(ends, start + total) - first, 0) / total
    return matrix


def from_matrix(matrix: np.ndarray) -> Moments:
    """One draw from every row, weight 1 / M each: w_i is a sum of M Bernoullis.

    The share is the mean: such a sampler is unbiased where columns sum to M p_i.
    """
    M = len(matrix)
    mean = matrix.sum(axis=0) / M
    return Moments(mean, mean, (matrix * (1 - matrix)).sum(axis=0) / M**2)


def moments(sampler: Factory, mass: ArrayLike, cohort: int, **options: Any) -> Moments:
    """Exact E[w_i] and Var w_i of a sampler with its options, for any masses and M.

    Normalised weights depend on who else is drawn: those take sums over the masses of
    subsets, which grow with N M^2 and the largest masses.
    """
    known = _MOMENTS.get(sampler)
    if known is None:
        names = ", ".join(name_of(one) for one in _MOMENTS)
        raise ValueError(
            f"sampler must be one whose moments are known, {names}: "
            f"got {name_of(sampler)}"
        )
    found = _checked(mass, cohort)
    # Shares alone matter, and tables are as long as masses are large.
    return known(found // np.gcd.reduce(found), cohort, **options)


def _checked(mass: ArrayLike, cohort: int) -> np.ndarray:
    found = np.asarray(mass)
    checked = checked_mass(found, len(found) if found.ndim else 0)
    check_cohort(cohort)
    return np.asarray(checked, np.int64)


def _everyone(mass: np.ndarray, cohort: int) -> Moments:
    p = mass / mass.sum()
    return Moments(p, p, np.zeros(len(p)))


def _multinomial(mass: np.ndarray, cohort: int) -> Moments:
    p = mass / mass.sum()
    return Moments(p, p, p * (1 - p) / cohort)


def _adaptive(
    mass: np.ndarray, cohort: int, *, order: ArrayLike | None = None
) -> Moments:
    p = mass / mass.sum()
    return from_matrix(draw_matrix(mass, cohort, order))._replace(share=p, mean=p)


def _clustered_adaptive(
    mass: np.ndarray, cohort: int, *, order: ArrayLike | None = None, **_: Any
) -> Moments:
    if order is None:
        raise ValueError(
            "order must be given for clustered_adaptive: all client ids, cluster after "
            "cluster, as fm.samplers.cluster_order gives them"
        )
    return _adaptive(mass, cohort, order=order)


def _systematic(mass: np.ndarray, cohort: int) -> Moments:
    total = mass.sum()
    p, f = mass / total, mass * cohort % total / total
    return Moments(p, p, f * (1 - f) / cohort**2)


def _uniform(mass: np.ndarray, cohort: int, *, weights: str = "eq28") -> Moments:
    check_choice("weights", weights, ("eq28", "mean", "share"))
    N, p = _fits(mass, cohort), mass / mass.sum()
    if weights == "eq28":  # w_i = N p_i / M with probability M / N
        return Moments(p, p, (N / cohort - 1) * p**2)
    return _of_sizes(mass, {cohort: 1.0}, weights)


def _bernoulli(mass: np.ndarray, cohort: int, *, weights: str = "mean") -> Moments:
    check_choice("weights", weights, ("mean", "share"))
    return _of_sizes(mass, size_distribution(_fits(mass, cohort), cohort), weights)


def _of_sizes(mass: np.ndarray, sizes: dict[int, float], weights: str) -> Moments:
    """A number k of clients with probability P(k), every set equally likely.

    Weights are 1 / k, or p_i over the cohort's: with s the mass of the k - 1 others,
    E[w_i^n] = sum_k P(k) (k / N) E[(m_i / (m_i + s))^n].
    """
    N, p = len(mass), mass / mass.sum()
    if weights == "mean":
        square = sum(chance / (N * k) for k, chance in sizes.items())
        return Moments(p, np.full(N, 1 / N), np.full(N, square - 1 / N**2))
    first, second = np.zeros(N), np.zeros(N)
    for m, table in uniform_tables(mass, max(sizes) - 1):
        part, mine = m / (m + np.arange(table.shape[-1])), mass == m
        for k, chance in sizes.items():
            first[mine] += chance * k / N * (table[k - 1] @ part)
            second[mine] += chance * k / N * (table[k - 1] @ part**2)
    return Moments(p, first, second - first**2)


def _uniform_release(mass: np.ndarray, cohort: int) -> Moments:
    """Successive draws with probabilities p are the first M of exponential clocks.

    Client i comes at a time of rate m_i; the next one after the cohort S comes at t
    with density (D - m(S)) e^(-(D - m(S)) t). So with s the mass of the M - 1 others

        E[w_i^n] = int (1 - e^(-m_i t)) E[(D - m_i - s) (m_i / (m_i + s))^n; others] dt

    over tables of who came before t, by Gauss and Legendre in u = e^(-t / 4 t*), where
    t* is the time by which M + 1/2 clients are expected (and 4 makes the integrand
    smooth at u = 0, long after it).
    """
    N, p, D = _fits(mass, cohort), mass / mass.sum(), int(mass.sum())
    if cohort == N:
        return _everyone(mass, cohort)
    scale = 4 * _time_of(mass, cohort)
    nodes, rule = np.polynomial.legendre.leggauss(_NODES)
    u = (nodes + 1) / 2
    time, step = -scale * np.log(u), rule / 2 * scale / u
    first, second = np.zeros(N), np.zeros(N)
    for m, tables in independent_tables(mass, cohort - 1, time):
        rows, s = tables[:, -1, :], np.arange(tables.shape[-1])
        part, rate = m / (m + s), np.maximum(D - m - s, 0)
        came = step * -np.expm1(-m * time)
        first[mass == m] = came @ (rows @ (rate * part))
        second[mass == m] = came @ (rows @ (rate * part**2))
    return Moments(p, first, second - first**2)


def _time_of(mass: np.ndarray, cohort: int) -> float:
    """When cohort + 1/2 clients are expected to have come, by bisection."""
    low, high = 0.0, 1.0
    wanted = min(cohort + 0.5, (cohort + len(mass)) / 2)
    while -np.expm1(-mass * high).sum() < wanted:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        below = -np.expm1(-mass * middle).sum() < wanted
        low, high = (middle, high) if below else (low, middle)
    return high


def _fits(mass: np.ndarray, cohort: int) -> int:
    if cohort > len(mass):
        raise ValueError(
            f"cohort must be at most the number of clients, {len(mass)}: got {cohort}"
        )
    return len(mass)


_MOMENTS: dict[Factory, Callable[..., Moments]] = {
    everyone: _everyone,
    multinomial: _multinomial,
    adaptive: _adaptive,
    clustered_adaptive: _clustered_adaptive,
    systematic: _systematic,
    uniform: _uniform,
    uniform_release: _uniform_release,
    bernoulli: _bernoulli,
}
