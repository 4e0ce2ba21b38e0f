"""Clients grouped by their gradients: host work, O(N^2), N up to some thousands.

Distances between clients i and j come from s_ij, the cosine of their gradients:

    "cosine"   1 - s_ij       Wang et al., INFOCOM 2023 [wang2023fedmos], as printed
    "angle"    arccos(s_ij)   Fraboni et al., ICML 2021 [fraboni2021clustered]; the
                              released programs of both papers

A client whose gradient is zero (nothing is known of it) is at distance 0 from all.
Groups are cuts of Ward's tree on these distances.
"""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.client.tools import over_all
from fedjax_mos.data.store import views
from fedjax_mos.samplers.cohort import check_choice
from fedjax_mos.types import ArrayLike, Batch, FederatedData, Key, Loss, Params, PyTree

Distance = Literal["cosine", "angle"]
DISTANCES = ("cosine", "angle")
_MOST = 10_000  # clients; the distances of more do not fit a small machine


def client_gradients(
    loss: Loss, params: Params, data: FederatedData, *, micro_batch: int = 32
) -> Params:
    """The gradient of f_i at `params` for every client i: leaves [N, ...].

    In evaluation mode, so there is nothing to draw.
    """

    def measure(batch: Batch, key: Key) -> Params:
        return jax.grad(loss)(params, batch, None)

    def gradient(client: jax.Array) -> Params:
        return over_all(measure, views(data, client), jax.random.key(0), micro_batch)

    return jax.lax.map(gradient, jnp.arange(data.size.shape[0]))


def cluster_order(
    gradients: PyTree,
    sizes: ArrayLike,
    clusters: int,
    *,
    distance: Distance = "cosine",
) -> np.ndarray:
    """Client ids, cluster after cluster: heaviest first, and so within a cluster.

    `gradients` has leaves [N, ...], `sizes` are the clients' masses [N]. Ties go by
    client index; clients that no distance tells apart may leave fewer clusters.

    >>> cluster_order(np.array([[1.0], [-1], [2], [-3]]), [1, 2, 3, 4], 2)
    array([3, 1, 2, 0])
    """
    sizes = np.asarray(sizes)
    check_clusters(clusters, len(sizes))
    if len(sizes) == 1:
        return np.zeros(1, int)
    label = _fcluster(_tree(gradients, distance), clusters, "maxclust")
    mass = np.bincount(label, weights=sizes)
    return np.lexsort((-sizes, label, -mass[label]))


def similar_bins(
    gradients: PyTree,
    sizes: ArrayLike,
    cohort: int,
    *,
    distance: Distance = "angle",
) -> np.ndarray:
    """The M bins of clustered sampling, Algorithm 2, in integers [M, N].

    A bin holds D = sum_i D_i units and client i has M D_i of them, so rows sum to D and
    columns to M D_i. A client with D or more fills bins of its own; what remains of it
    takes part. Ward's tree is cut where a group would exceed D. The heaviest groups
    become the bins that are left, the others are poured into their room.
    """
    sizes = np.asarray(sizes, np.int64)
    total = int(sizes.sum())
    whole, rest = np.divmod(cohort * sizes, total)
    own = np.zeros((whole.sum(), len(sizes)), np.int64)
    own[np.arange(len(own)), np.repeat(np.arange(len(sizes)), whole)] = total
    left = cohort - len(own)
    if not left:
        return own
    label = np.arange(len(sizes))
    if len(sizes) > 1:
        label = _cut(_tree(gradients, distance), rest, total) - 1
    mass = np.bincount(label, weights=rest).astype(np.int64)
    heaviest = np.argsort(-mass, kind="stable")
    bin_of = np.full(len(mass), -1)
    bin_of[heaviest[:left]] = np.arange(left)
    bins = np.zeros((left, len(sizes)), np.int64)
    kept = np.flatnonzero(bin_of[label] >= 0)
    bins[bin_of[label[kept]], kept] = rest[kept]
    others = np.flatnonzero(bin_of[label] < 0)
    others = others[np.lexsort((label[others], -mass[label[others]]))]
    bins[:, others] = _poured(rest[others], total - bins.sum(axis=1))
    return np.concatenate([own, bins])


def check_clusters(clusters: int, clients: int) -> None:
    """Raise a ValueError unless 1 <= clusters <= N and N is not too large."""
    if clients > _MOST:
        raise ValueError(f"at most {_MOST} clients can be clustered: got {clients}")
    if not 1 <= clusters <= clients:
        raise ValueError(
            f"clusters must lie in [1, {clients}], the number of clients: "
            f"got {clusters}"
        )


def _tree(gradients: PyTree, distance: Distance) -> np.ndarray:
    """Ward's tree on the distances between clients, in scipy's form."""
    check_choice("distance", distance, DISTANCES)
    cosine = np.asarray(_cosines(gradients), float)
    away = np.arccos(cosine) if distance == "angle" else 1 - cosine
    from scipy.cluster.hierarchy import linkage  # not at the top: they take long
    from scipy.spatial.distance import squareform

    return linkage(squareform(away, checks=False), "ward")


@jax.jit
def _cosines(gradients: PyTree) -> jax.Array:
    """s_ij in [-1, 1]; 1 on the diagonal, and where a gradient is zero or diverged."""
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(gradients)]
    norm = jnp.sqrt(sum((leaf**2).sum(axis=1) for leaf in leaves))
    known = (norm > 0) & jnp.isfinite(norm)
    units = [jnp.where(known, leaf.T / norm, 0).T for leaf in leaves]
    products = sum(unit @ unit.T for unit in units)
    unknown = ~(known[:, None] & known)
    same = jnp.eye(norm.size, dtype=bool)
    return jnp.where(unknown | same, 1, jnp.clip(products, -1, 1))


def _cut(tree: np.ndarray, mass: np.ndarray, most: int) -> np.ndarray:
    """Labels 1.. of the largest subtrees whose mass is at most `most`."""
    masses = [*mass.tolist()]
    for left, right in tree[:, :2].astype(int):
        masses.append(masses[left] + masses[right])
    by_mass = tree.copy()
    by_mass[:, 2] = masses[len(mass) :]  # grows towards the root, as heights must
    return _fcluster(by_mass, most, "distance")


def _poured(mass: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Masses [n] poured one after another into rooms [m] of the same sum: [m, n]."""
    ends, full = mass.cumsum(), room.cumsum()
    low = np.maximum((ends - mass)[None], (full - room)[:, None])
    return np.maximum(np.minimum(ends[None], full[:, None]) - low, 0)


def _fcluster(tree: np.ndarray, size: int, criterion: str) -> np.ndarray:
    """Labels of a cut through Ward's tree."""
    from scipy.cluster.hierarchy import fcluster

    return fcluster(tree, size, criterion)
