"""Class counts -> quotas: how many examples of each class every client gets, [N, C].

A rule about labels never looks at the examples themselves, so each one is a function
of the counts [C] alone; `deal` then hands out the examples. Checked arguments only:
`partitions.py` is the public face.
"""

import numpy as np

Rng = np.random.Generator


def even(total: int, parts: int) -> np.ndarray:
    """`total` in `parts` sizes that differ by at most one, the larger ones first."""
    return total // parts + (np.arange(parts) < total % parts)


def compositions(sizes: np.ndarray, parts: int, low: int, rng: Rng) -> np.ndarray:
    """Each size as a uniform random ordered sum: the last part >= 1, others >= low."""
    # Bars between stars: a subset of parts - 1 of the m places, by Floyd's algorithm.
    m = sizes - (parts - 1) * (low - 1) - 1
    bars = np.empty((len(sizes), parts - 1), int)
    for j in range(parts - 1):
        last = m - (parts - 1) + j
        place = rng.integers(0, last, endpoint=True)
        taken = (bars[:, :j] == place[:, None]).any(axis=1)
        bars[:, j] = np.where(taken, last, place)
    bars = np.sort(bars, axis=1) + 1
    result = np.diff(bars, axis=1, prepend=0, append=m[:, None] + 1)
    result[:, :-1] += low - 1
    return result


def per_class(counts: np.ndarray, clients: int, alpha: float, rng: Rng) -> np.ndarray:
    """Every class cut over the clients by its own Dirichlet(alpha) draw."""
    log_weight = _log_gamma(alpha, (clients, len(counts)), rng)
    cut = np.cumsum(np.exp(log_weight - log_weight.max(axis=0)), axis=0)
    bounds = np.floor(cut / cut[-1] * counts).astype(int)
    return np.diff(bounds, axis=0, prepend=0)


def balanced(
    counts: np.ndarray, sizes: np.ndarray, alpha: float, rng: Rng
) -> np.ndarray:
    """Clients in turn draw examples of weight q_i[class] without replacement."""
    log_q = _log_gamma(alpha, (len(sizes), len(counts)), rng)
    left = counts.copy()
    result = np.empty((len(sizes), len(counts)), int)
    for client, size in enumerate(sizes):
        # Gumbel top-k = the first k of a race of clocks with rates q. Of one class only
        # the order statistics matter: the gap after j arrivals is Exp(q (left - j)).
        j = np.arange(min(size, left.max()))[:, None]
        gap = rng.standard_exponential((len(j), len(left))) / np.maximum(left - j, 1)
        time = np.log(np.cumsum(gap, axis=0)) - log_q[client]
        time[j >= left] = np.inf
        first = np.argpartition(time.ravel(), size - 1)[:size] % len(left)
        result[client] = np.bincount(first, minlength=len(left))
        left -= result[client]
    return result


def visiting(
    counts: np.ndarray, sizes: np.ndarray, alpha: float, rng: Rng
) -> np.ndarray:
    """Random non-full clients draw a label from their prior and get one example."""
    C = len(counts)
    client = visits(sizes, rng)
    # Gumbel-max: without the exhausted classes, the same scores give the redraw.
    score = rng.gumbel(size=(len(client), C))
    score += _log_gamma(alpha, (len(sizes), C), rng)[client]
    label = score.argmax(axis=1)
    while (over := np.flatnonzero(np.bincount(label, minlength=C) > counts)).size:
        start, c = min((np.flatnonzero(label == c)[counts[c]], c) for c in over)
        score[start:, c] = -np.inf
        late = start + np.flatnonzero(label[start:] == c)
        label[late] = score[late].argmax(axis=1)
    return np.bincount(client * C + label, minlength=len(sizes) * C).reshape(-1, C)


def visits(sizes: np.ndarray, rng: Rng) -> np.ndarray:
    """Client i sizes[i] times, each time uniform among the clients not yet full."""
    # The next point of N unit Poisson processes, each stopped when its client is full,
    # is equally likely to belong to any client that is not.
    time = np.cumsum(rng.standard_exponential((len(sizes), sizes.max())), axis=1)
    time[np.arange(sizes.max()) >= sizes[:, None]] = np.inf
    return np.argsort(time, axis=None)[: sizes.sum()] // sizes.max()


def picked(counts: np.ndarray, parts: np.ndarray, rng: Rng) -> np.ndarray:
    """Clients in turn pick distinct labels, likelier if more is left, one per part.

    What a label lacks comes from the client's other labels. Labels that lack it
    together give way to the fullest ones, as many more than the parts as it takes.
    """
    left = counts.copy()
    clock = rng.standard_exponential((len(parts), len(counts)))
    result = np.zeros((len(parts), len(counts)), int)
    for client, part in enumerate(parts):
        # First arrivals at rates `left`: draws without replacement, proportional to it.
        time = np.where(left > 0, clock[client] / np.maximum(left, 1), np.inf)
        label = np.argsort(time)[: len(part)]
        if left[label].sum() < part.sum():
            label = np.argsort(-left, kind="stable")
            enough = 1 + np.searchsorted(np.cumsum(left[label]), part.sum())
            label = label[: max(len(part), enough)]
            part = np.append(part, np.zeros(len(label) - len(part), int))
        given = np.minimum(part, left[label])
        spare = left[label] - given
        before = np.cumsum(spare) - spare
        given += np.clip(part.sum() - given.sum() - before, 0, spare)
        result[client, label] = given
        left[label] -= given
    return result


def deal(
    kind: np.ndarray, table: np.ndarray, rng: Rng
) -> tuple[np.ndarray, np.ndarray]:
    """Random examples to every client, as many of each class as the table [N, C]."""
    by_class = rng.permutation(len(kind))
    by_class = by_class[np.argsort(kind[by_class], kind="stable")]
    counts = np.bincount(kind)
    rank = np.arange(len(kind)) - np.repeat(np.cumsum(counts) - counts, counts)
    dealt = by_class[rank < np.repeat(table.sum(axis=0), counts)]
    owner = np.full(len(kind), -1)
    owner[dealt] = np.repeat(np.tile(np.arange(len(table)), len(counts)), table.T.flat)
    return collect(owner, len(table), rng)


def collect(owner: np.ndarray, clients: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """(order, size) with each client's examples in random order; -1 owns nothing."""
    order = rng.permutation(len(owner))
    order = order[np.argsort(owner[order], kind="stable")]
    size = np.bincount(owner + 1, minlength=clients + 1)
    return order[size[0] :], size[1:]


def levelled(size: np.ndarray, smallest: int) -> np.ndarray:
    """Sizes raised to `smallest`; the largest pay, cut down to a common level.

    >>> levelled(np.array([0, 9, 3, 8]), 2)
    array([2, 8, 3, 7])
    """
    missing = np.maximum(smallest - size, 0).sum()
    larger = len(size) - np.cumsum(np.bincount(size))  # [l] sizes above level l
    excess = np.cumsum(larger[::-1])[::-1]  # [l] examples above level l
    level = np.flatnonzero(excess >= missing)[-1]
    result = np.clip(size, smallest, level)
    result[np.flatnonzero(size > level)[: excess[level] - missing]] += 1
    return result


def refill(
    order: np.ndarray, size: np.ndarray, smallest: int
) -> tuple[np.ndarray, np.ndarray]:
    """(order, size) once the largest clients' last examples made the sizes level."""
    new = levelled(size, smallest)
    owner = np.repeat(np.arange(len(size)), size)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(size) - size, size)
    moved = rank >= new[owner]
    owner[moved] = np.repeat(np.arange(len(size)), np.maximum(new - size, 0))
    return order[np.argsort(owner, kind="stable")], new


def _log_gamma(alpha: float, shape: tuple[int, int], rng: Rng) -> np.ndarray:
    """Logarithms of Gamma(alpha) draws, that is of unnormalised Dirichlet weights."""
    # Gamma(a) = Gamma(a + 1) U^(1/a): no weight underflows to zero for a small alpha.
    boost = rng.standard_exponential(shape) / alpha
    return np.log(rng.standard_gamma(alpha + 1, shape)) - boost
