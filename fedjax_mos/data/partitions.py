"""Labels -> which examples belong to which client.

Every partition is a pure function of its arguments, deterministic in its seed; clients
are never empty and, but for `overlapping`, disjoint. A rule about labels is a table of
quotas (`quota.py`).
"""

import numpy as np

from fedjax_mos.components import cite
from fedjax_mos.data import quota
from fedjax_mos.data.partition import Partition, histogram  # noqa: F401
from fedjax_mos.data.partition_checks import (
    begin,
    check_between,
    check_enough,
    check_positive,
    start,
)
from fedjax_mos.types import ArrayLike, Positive


@cite("mcmahan2017fedavg")
def iid(labels: ArrayLike, clients: int, seed: int) -> Partition:
    """All examples at random, in sizes that differ by at most one.

    Of the labels, of any kind, only the number counts.

    >>> iid(np.arange(12) % 3, 5, seed=0).size
    array([3, 3, 2, 2, 2])
    """
    count, rng = begin(labels, clients, seed)
    return Partition(rng.permutation(count), quota.even(count, clients))


@cite("kim2024fedacg")
def dirichlet_balanced(
    labels: ArrayLike, clients: int, seed: int, *, alpha: Positive = 0.3
) -> Partition:
    """Equal sizes, label skew; late clients get what is left.

    Client i in turn draws q_i ~ Dirichlet(alpha) and then examples without replacement,
    each with weight q_i[label]. All examples are dealt, in sizes that differ by at most
    one. From the released code of FedACG.
    """
    kind, counts, rng = start(labels, clients, seed)
    check_positive("alpha", alpha)
    sizes = quota.even(len(kind), clients)
    return Partition(
        *quota.deal(kind, quota.balanced(counts, sizes, float(alpha), rng), rng)
    )


@cite("acar2021feddyn")
def dirichlet_visiting(
    labels: ArrayLike, clients: int, seed: int, *, alpha: Positive = 0.6
) -> Partition:
    """Equal sizes, label skew; all clients get what is left.

    Until all are full, a random non-full client draws a label from its prior q_i ~
    Dirichlet(alpha), again if the class is exhausted, and gets one such example. All
    examples are dealt, in sizes that differ by at most one. From the released code of
    FedDyn.
    """
    kind, counts, rng = start(labels, clients, seed)
    check_positive("alpha", alpha)
    sizes = quota.even(len(kind), clients)
    return Partition(
        *quota.deal(kind, quota.visiting(counts, sizes, float(alpha), rng), rng)
    )


@cite("yurochkin2019bayesian")
def dirichlet(
    labels: ArrayLike,
    clients: int,
    seed: int,
    *,
    alpha: Positive = 0.3,
    smallest: int = 1,
) -> Partition:
    """Label and size skew: each class is cut over the clients by Dirichlet(alpha).

    Clients with fewer than `smallest` examples are then filled up with random ones of
    the largest clients. All examples are dealt.
    """
    kind, counts, rng = start(labels, clients, seed)
    check_positive("alpha", alpha)
    check_between("smallest", smallest, 1, len(kind) // clients, "examples per client")
    table = quota.per_class(counts, clients, float(alpha), rng)
    return Partition(*quota.refill(*quota.deal(kind, table, rng), smallest))


@cite("li2022silos")
def quantity(
    labels: ArrayLike,
    clients: int,
    seed: int,
    *,
    alpha: Positive = 1.0,
    smallest: int = 1,
) -> Partition:
    """Size skew only: sizes by Dirichlet(alpha) over the clients, examples at random.

    Clients below `smallest` are raised to it at the expense of the largest. All
    examples are dealt. Of the labels, of any kind, only the number counts.
    """
    count, rng = begin(labels, clients, seed)
    check_positive("alpha", alpha)
    check_between("smallest", smallest, 1, count // clients, "examples per client")
    size = quota.per_class(np.array([count]), clients, float(alpha), rng)[:, 0]
    return Partition(rng.permutation(count), quota.levelled(size, smallest))


@cite("mcmahan2017fedavg")
def shards(
    labels: ArrayLike, clients: int, seed: int, *, shards_per_client: int = 2
) -> Partition:
    """The examples sorted by label, cut into equal shards that are dealt at random.

    All examples are dealt; shards differ by at most one.
    """
    kind, _, rng = start(labels, clients, seed)
    most = len(kind) // clients
    check_between(
        "shards_per_client", shards_per_client, 1, most, "examples per client"
    )
    pieces = clients * shards_per_client
    shard = np.repeat(np.arange(pieces), quota.even(len(kind), pieces))
    owner = np.empty(len(kind), int)
    owner[np.argsort(kind, kind="stable")] = rng.permutation(pieces)[shard] % clients
    return Partition(*quota.collect(owner, clients, rng))


@cite("wang2023fedmos")
def classes(
    labels: ArrayLike,
    clients: int,
    seed: int,
    *,
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
    are left. Its size is always kept. With c = 2 it is the MNIST rule of FedMoS (the
    released code, which cuts clients short instead).
    """
    kind, counts, rng = start(labels, clients, seed)
    c = classes_per_client
    check_between("classes_per_client", c, 1, len(counts), "the number of classes")
    check_between(
        "largest", largest, c, len(kind), "classes_per_client to all examples"
    )
    check_between("smallest", smallest, c, largest, "classes_per_client to largest")
    sizes = rng.integers(smallest, largest, clients, endpoint=True)
    check_enough(sizes, kind, "lower clients or largest")
    parts = quota.compositions(sizes, c, max(1, smallest // (2 * c)), rng)
    return Partition(*quota.deal(kind, quota.picked(counts, parts, rng), rng))


@cite("wang2023fedmos")
def ladder(
    labels: ArrayLike,
    clients: int,
    seed: int,
    *,
    classes_per_client: int = 5,
    sizes: tuple[int, ...] = (200, 150, 100, 50, 20),
    fractions: tuple[float, ...] = (0.1, 0.2, 0.3, 0.3, 0.1),
) -> Partition:
    """Few classes per client, a ladder of sizes by client index; the rest is unused.

    The first tenth of the clients has 200 examples and so on. In turn (so list large
    sizes first) every client picks distinct labels with probability proportional to
    what is left of each, and takes equal parts; low classes as in `classes`. The
    CIFAR-10 rule of FedMoS (the released code).
    """
    kind, counts, rng = start(labels, clients, seed)
    c = classes_per_client
    check_between("classes_per_client", c, 1, len(counts), "the number of classes")
    for size in sizes:
        check_between("sizes", size, c, len(kind), "classes_per_client to all examples")
    whole = min(fractions) >= 0 and np.isclose(sum(fractions), 1)
    if not whole or len(fractions) != len(sizes):
        raise ValueError(
            f"fractions must be {len(sizes)} non-negative numbers (one per size) that "
            f"sum to 1: got {tuple(fractions)}"
        )
    steps = np.rint(np.cumsum(fractions) * clients).astype(int)
    size_of = np.repeat(sizes, np.diff(steps, prepend=0))
    check_enough(size_of, kind, "lower clients or sizes")
    parts = size_of[:, None] // c + (np.arange(c) < size_of[:, None] % c)
    return Partition(*quota.deal(kind, quota.picked(counts, parts, rng), rng))


@cite("wang2023fedmos")
def overlapping(
    labels: ArrayLike,
    clients: int,
    seed: int,
    *,
    classes_per_client: int = 5,
    smallest: int = 20,
    largest: int = 200,
) -> Partition:
    """Few classes per client, sizes uniform in [smallest, largest]; clients overlap.

    Every client by itself picks c distinct classes, each equally likely, and takes
    parts from them that differ by at most one. The text of FedMoS on CIFAR-10, where
    500 such clients need more than all examples.
    """
    kind, counts, rng = start(labels, clients, seed)
    c = classes_per_client
    check_between("classes_per_client", c, 1, len(counts), "the number of classes")
    check_between("largest", largest, c, c * int(counts.min()), "the rarest class")
    check_between("smallest", smallest, c, largest, "classes_per_client to largest")
    size = rng.integers(smallest, largest, clients, endpoint=True)
    by_class = [np.flatnonzero(kind == label) for label in range(len(counts))]

    def drawn(size: int) -> np.ndarray:
        picked = rng.permutation(len(counts))[:c]
        rows = [rng.permutation(by_class[k]) for k in picked]
        parts = quota.even(size, c)
        return np.concatenate([r[:part] for r, part in zip(rows, parts, strict=True)])

    return Partition(np.concatenate([drawn(int(one)) for one in size]), size)


@cite("mcmahan2017fedavg")
def natural(groups: ArrayLike) -> Partition:
    """One client per distinct id (a writer, a speaker), in the order of sorted ids.

    >>> natural(np.array(["eve", "bob", "eve"]))
    Partition(order=array([1, 0, 2]), size=array([1, 2]))
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or not len(groups):
        raise ValueError(
            f"groups must have one id per example: got shape {groups.shape}"
        )
    _, size = np.unique(groups, return_counts=True)
    return Partition(np.argsort(groups, kind="stable"), size)
