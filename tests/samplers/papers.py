"""What the papers say about weights, in exact numbers."""

from fractions import Fraction
from functools import cache

import numpy as np

import fedjax_mos as fm


def algorithm_2(sizes, M, order=None):
    """FedMoS, Algorithm 2, line by line, in exact fractions: p[m][i]."""
    clients = order or sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    mass = [Fraction(M * size, sum(sizes)) for size in sizes]  # M p_i
    P = [Fraction(0)] * len(sizes)
    matrix = []
    for _ in range(M):
        total, p = Fraction(0), [Fraction(0)] * len(sizes)
        for i in clients:
            if P[i] < mass[i]:
                p[i] = min(mass[i] - P[i], Fraction(1))
                before, total = total, total + p[i]
                if total <= 1:
                    P[i] += p[i]
                else:
                    p[i] = 1 - before
                    P[i] += p[i]
                    break
        matrix.append(p)
    return matrix


@cache
def mnist_sizes():
    """Sizes of the FedMoS MNIST partition: 500 clients of 10 to 50 examples."""
    labels = np.arange(60_000) % 10
    return fm.partitions.classes(
        labels, 500, seed=0, classes_per_client=2, smallest=10, largest=50
    ).size


def formulas(sizes, M):
    """sum_i Var w_i of ALGORITHMS 11."""
    sizes = np.sort(sizes)[::-1].astype(np.int64)
    D, N = int(sizes.sum()), len(sizes)
    p = sizes / D
    # Row m of the matrix: overlaps of [C_{i-1} M, C_i M) with [m D, (m + 1) D).
    ends = np.cumsum(sizes) * M
    bins = np.arange(M)[:, None] * D
    overlap = np.minimum(ends, bins + D) - np.maximum(ends - sizes * M, bins)
    matrix = np.maximum(overlap, 0) / D
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    np.testing.assert_allclose(matrix.sum(axis=0), M * p)
    f = sizes * M % D / D
    return {
        "UCS": (N / M * p**2 - p**2).sum(),
        "MD": (p * (1 - p) / M).sum(),
        "ACS": (p / M - (matrix**2).sum(axis=0) / M**2).sum(),
        "systematic": (f * (1 - f) / M**2).sum(),
    }
