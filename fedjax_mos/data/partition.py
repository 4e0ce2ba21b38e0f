"""Labels -> which examples belong to which client.

Every partition is a pure function of its arguments, deterministic in its seed; clients
are disjoint and never empty. A rule about labels is a table of quotas (`quota.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedjax_mos.data import quota


class Partition(NamedTuple):
    """Which examples belong to which client: positions, client after client."""

    order: np.ndarray  # [sum of sizes]
    size: np.ndarray  # [N]


def histogram(
    partition: Partition, labels: np.ndarray, classes: int | None = None
) -> np.ndarray:
    """How many examples of each class every client owns, [N, C].

    >>> histogram(natural(np.array([7, 5, 5])), np.array([0, 2, 2])).tolist()
    [[0, 0, 2], [1, 0, 0]]
    """
    labels = _labels(labels)
    C = int(labels.max()) + 1 if classes is None else classes
    _between("classes", C, int(labels.max()) + 1, np.inf, "one more than any label")
    N = len(partition.size)
    client = np.repeat(np.arange(N), partition.size)
    flat = np.bincount(client * C + labels[partition.order], minlength=N * C)
    return flat.reshape(N, C)


def iid(labels: np.ndarray, clients: int, *, seed: int) -> Partition:
    """All examples at random, in sizes that differ by at most one.

    >>> iid(np.arange(12) % 3, 5, seed=0).size
    array([3, 3, 2, 2, 2])
    """
    kind, _, rng = _start(labels, clients, seed)
    return Partition(rng.permutation(len(kind)), quota.even(len(kind), clients))


def dirichlet_balanced(
    labels: np.ndarray, clients: int, *, seed: int, alpha: float
) -> Partition:
    """Equal sizes, label skew; late clients get what is left.

    Client i in turn draws q_i ~ Dirichlet(alpha) and then examples without replacement,
    each with weight q_i[label]. All examples are dealt, in sizes that differ by at most
    one. Kim, Kim and Han, Communication-Efficient Federated Learning with Accelerated
    Client Gradient, CVPR 2024 (the released code).
    """
    kind, counts, rng = _start(labels, clients, seed)
    _positive("alpha", alpha)
    sizes = quota.even(len(kind), clients)
    return Partition(*quota.deal(kind, quota.balanced(counts, sizes, alpha, rng), rng))


def dirichlet_visiting(
    labels: np.ndarray, clients: int, *, seed: int, alpha: float
) -> Partition:
    """Equal sizes, label skew; all clients get what is left.

    Until all are full, a random non-full client draws a label from its prior q_i ~
    Dirichlet(alpha), again if the class is exhausted, and gets one such example. All
    examples are dealt, in sizes that differ by at most one. Acar et al., Federated
    Learning Based on Dynamic Regularization, ICLR 2021 (the released code).
    """
    kind, counts, rng = _start(labels, clients, seed)
    _positive("alpha", alpha)
    sizes = quota.even(len(kind), clients)
    return Partition(*quota.deal(kind, quota.visiting(counts, sizes, alpha, rng), rng))


def dirichlet(
    labels: np.ndarray, clients: int, *, seed: int, alpha: float, smallest: int = 1
) -> Partition:
    """Label and size skew: each class is cut over the clients by Dirichlet(alpha).

    Clients with fewer than `smallest` examples are then filled up with random ones of
    the largest clients. All examples are dealt. Yurochkin et al., Bayesian
    Nonparametric Federated Learning of Neural Networks, ICML 2019.
    """
    kind, counts, rng = _start(labels, clients, seed)
    _positive("alpha", alpha)
    _between("smallest", smallest, 1, len(kind) // clients, "examples per client")
    table = quota.per_class(counts, clients, alpha, rng)
    return Partition(*quota.refill(*quota.deal(kind, table, rng), smallest))


def quantity(
    labels: np.ndarray, clients: int, *, seed: int, alpha: float, smallest: int = 1
) -> Partition:
    """Size skew only: sizes by Dirichlet(alpha) over the clients, examples at random.

    Clients below `smallest` are raised to it at the expense of the largest. All
    examples are dealt. Li et al., Federated Learning on Non-IID Data Silos, ICDE 2022.
    """
    kind, _, rng = _start(labels, clients, seed)
    _positive("alpha", alpha)
    _between("smallest", smallest, 1, len(kind) // clients, "examples per client")
    size = quota.per_class(np.array([len(kind)]), clients, alpha, rng)[:, 0]
    return Partition(rng.permutation(len(kind)), quota.levelled(size, smallest))


def shards(
    labels: np.ndarray, clients: int, *, seed: int, shards_per_client: int = 2
) -> Partition:
    """The examples sorted by label, cut into equal shards that are dealt at random.

    All examples are dealt; shards differ by at most one. McMahan et al.,
    Communication-Efficient Learning of Deep Networks from Decentralized Data, 2017.
    """
    kind, _, rng = _start(labels, clients, seed)
    most = len(kind) // clients
    _between("shards_per_client", shards_per_client, 1, most, "examples per client")
    pieces = clients * shards_per_client
    shard = np.repeat(np.arange(pieces), quota.even(len(kind), pieces))
    owner = np.empty(len(kind), int)
    owner[np.argsort(kind, kind="stable")] = rng.permutation(pieces)[shard] % clients
    return Partition(*quota.collect(owner, clients, rng))


def classes(
    labels: np.ndarray,
    clients: int,
    *,
    seed: int,
    classes_per_client: int = 2,
    smallest: int = 10,
    largest: int = 50,
) -> Partition:
    """Few classes per client, sizes uniform in [smallest, largest]; the rest is unused.

    In turn every client picks c distinct labels with probability proportional to what
    is left of each, and takes from them the parts of a random sum: uniform over those
    whose last part is at least 1 and the others at least max(1, smallest // 2c). When
    classes run low a part is what is left and the client's other labels make up for
    it; only if no c labels suffice does a client get more of them, or fewer if fewer
    are left. Its size is always kept. With c = 2 it is the MNIST rule of Wang et al.,
    FedMoS: Taming Client Drift in Federated Learning with Double Momentum and Adaptive
    Selection, INFOCOM 2023 (the released code, which cuts clients short instead).
    """
    kind, counts, rng = _start(labels, clients, seed)
    c = classes_per_client
    _between("classes_per_client", c, 1, len(counts), "the number of classes")
    _between("largest", largest, c, len(kind), "classes_per_client to all examples")
    _between("smallest", smallest, c, largest, "classes_per_client to largest")
    sizes = rng.integers(smallest, largest, clients, endpoint=True)
    _afford(sizes, kind, "lower clients or largest")
    parts = quota.compositions(sizes, c, max(1, smallest // (2 * c)), rng)
    return Partition(*quota.deal(kind, quota.picked(counts, parts, rng), rng))


def ladder(
    labels: np.ndarray,
    clients: int,
    *,
    seed: int,
    classes_per_client: int = 5,
    sizes: Sequence[int] = (200, 150, 100, 50, 20),
    fractions: Sequence[float] = (0.1, 0.2, 0.3, 0.3, 0.1),
) -> Partition:
    """Few classes per client, a ladder of sizes by client index; the rest is unused.

    The first tenth of the clients has 200 examples and so on. In turn (so list large
    sizes first) every client picks distinct labels with probability proportional to
    what is left of each, and takes equal parts; low classes as in `classes`. The
    CIFAR-10 rule of Wang et al., FedMoS, INFOCOM 2023 (the released code).
    """
    kind, counts, rng = _start(labels, clients, seed)
    c = classes_per_client
    _between("classes_per_client", c, 1, len(counts), "the number of classes")
    for size in sizes:
        _between("sizes", size, c, len(kind), "classes_per_client to all examples")
    whole = min(fractions) >= 0 and np.isclose(sum(fractions), 1)
    if not whole or len(fractions) != len(sizes):
        raise ValueError(
            f"fractions must be {len(sizes)} non-negative numbers (one per size) that "
            f"sum to 1: got {tuple(fractions)}"
        )
    steps = np.rint(np.cumsum(fractions) * clients).astype(int)
    size_of = np.repeat(sizes, np.diff(steps, prepend=0))
    _afford(size_of, kind, "lower clients or sizes")
    parts = size_of[:, None] // c + (np.arange(c) < size_of[:, None] % c)
    return Partition(*quota.deal(kind, quota.picked(counts, parts, rng), rng))


def natural(groups: np.ndarray) -> Partition:
    """One client per distinct id (a writer, a speaker), in the order of sorted ids.

    >>> natural(np.array(["eve", "bob", "eve"]))
    Partition(order=array([1, 0, 2]), size=array([1, 2]))
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or not len(groups):
        raise ValueError(f"groups must have one id per example: shape {groups.shape}")
    _, size = np.unique(groups, return_counts=True)
    return Partition(np.argsort(groups, kind="stable"), size)


def _start(
    labels: np.ndarray, clients: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Labels renumbered 0, ..., C - 1, the counts [C] of each, and the generator."""
    labels = _labels(labels)
    _between("clients", clients, 1, len(labels), "the number of examples")
    _, kind, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return kind, counts, np.random.default_rng(seed)


def _labels(labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    integers = np.issubdtype(labels.dtype, np.integer)
    if labels.ndim != 1 or not integers or labels.min(initial=0) < 0:
        raise ValueError(
            "labels must be a 1-D array of non-negative integers: got shape "
            f"{labels.shape}, dtype {labels.dtype}, smallest {labels.min(initial=0)}"
        )
    return labels.astype(int)


def _between(name: str, value: int, low: int, high: float, meaning: str) -> None:
    if not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer: got {value!r}")
    if not low <= value <= high:
        raise ValueError(
            f"{name} must be between {low} and {high} ({meaning}): got {value}"
        )


def _positive(name: str, value: float) -> None:
    if not 0 < value < np.inf:
        raise ValueError(f"{name} must be positive and finite: got {value}")


def _afford(sizes: np.ndarray, kind: np.ndarray, advice: str) -> None:
    if sizes.sum() > len(kind):
        raise ValueError(
            f"{len(sizes)} clients ask for {sizes.sum()} examples and there are "
            f"{len(kind)}: {advice}"
        )
