"""All numbers that are tuned, in one row on their unbounded scales."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.lab.hypergradients.scales import Scales
from fedjax_mos.lab.hypergradients.wrt import Named
from fedjax_mos.schedule import Schedule


class Coordinates:
    """Named numbers <-> one row; the box that the row stays in.

    A name with a matrix in `shapes` is a schedule of fewer numbers.
    """

    def __init__(
        self, scales: Scales, start: Named, shapes: Mapping[str, np.ndarray]
    ) -> None:
        self.scales, self.shapes = scales, shapes
        self.trees = {n: jax.tree.structure(start[n]) for n in scales}
        self.sizes = {
            n: [np.shape(v) for v in jax.tree.leaves(start[n])] for n in scales
        }
        counts = [self._count(name) for name in scales]
        boxes = list(zip(scales.values(), counts, strict=True))
        self.low = np.concatenate([np.full(n, scale.low) for scale, n in boxes])
        self.high = np.concatenate([np.full(n, scale.high) for scale, n in boxes])
        self.names = np.repeat(np.arange(len(counts)), counts)

    def row(self, named: Named) -> np.ndarray:
        """The row whose `back` comes nearest, in the box."""
        parts = []
        for name, scale in self.scales.items():
            leaves = [np.ravel(v) for v in jax.tree.leaves(named[name])]
            with np.errstate(divide="ignore"):
                free = np.asarray(scale.free(np.concatenate(leaves)), float)
            free = np.clip(free, scale.low, scale.high)
            if name in self.shapes:
                free = np.linalg.lstsq(self.shapes[name], free, rcond=None)[0]
            parts.append(free)
        return np.clip(np.concatenate(parts), self.low, self.high)

    def back(self, row: jax.Array) -> Named:
        """The numbers of a row; can be differentiated."""
        named: Named = {}
        for name, scale in self.scales.items():
            part, row = jnp.split(row, [self._count(name)])
            if name in self.shapes:
                # A spline may swing out of the box.
                values = jnp.clip(self.shapes[name] @ part, scale.low, scale.high)
                named[name] = Schedule(scale.back(values))
                continue
            leaves = []
            for shape in self.sizes[name]:
                leaf, part = jnp.split(part, [int(np.prod(shape))])
                leaves.append(scale.back(leaf.reshape(shape)))
            named[name] = jax.tree.unflatten(self.trees[name], leaves)
        return named

    def _count(self, name: str) -> int:
        if name in self.shapes:
            return self.shapes[name].shape[1]
        return sum(int(np.prod(shape)) for shape in self.sizes[name])
