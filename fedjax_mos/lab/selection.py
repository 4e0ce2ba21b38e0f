"""Who will be chosen, before anybody is: samplers by name, on clients of given masses.

>>> theory = selection([1, 2, 3, 14, 4, 6], 3, ("md", "acs"))
>>> theory.table()["sum_of_variances"].round(3).tolist()
[0.236, 0.131]
"""

# `help` then shows ArrayLike, not all that it stands for.
from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab import catalog, pictures
from fedjax_mos.samplers import (
    Moments,
    clustered_adaptive,
    draw_matrix,
    moments,
)
from fedjax_mos.types import ArrayLike

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Selection:
    """Exact moments of the weights by sampler, and the matrix of draws."""

    mass: np.ndarray  #: [N]
    cohort: int  #: M
    moments: dict[str, Moments]  #: by sampler
    matrix: np.ndarray  #: [M, N] p_im, the probability that draw m is client i

    @property
    def frame(self) -> pd.DataFrame:
        """One row per sampler and client: its share, and mean and variance of w_i."""
        import pandas as pd

        columns = {
            name: pd.DataFrame(one._asdict()).assign(second=one.second, bias=one.bias)
            for name, one in self.moments.items()
        }
        frame = pd.concat(columns, names=["sampler", "client"]).reset_index()
        return frame.assign(mass=self.mass[frame["client"]])

    def table(self) -> pd.DataFrame:
        """One row per sampler: sum_i Var w_i, the largest bias, and E[sum_i w_i]."""
        import pandas as pd

        rows = {
            name: {
                "sum_of_variances": one.total,
                "largest_relative_bias": float(np.max(abs(one.bias) / one.share)),
                "expected_sum": float(one.mean.sum()),
            }
            for name, one in self.moments.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("sampler")

    def picture(self) -> Figure:
        """The matrix, and the variance of every client's weight by its share."""
        return pictures.selection_theory(self.matrix, self.moments)


def selection(
    mass: ArrayLike,
    cohort: int,
    samplers: Iterable[str] = ("ucs", "md", "acs", "systematic"),
    *,
    order: ArrayLike | None = None,
) -> Selection:
    """Exact E[w_i] and Var w_i for clients of these masses (or sizes) and M draws.

    `samplers` are names of the catalog; `fm.samplers.moments` takes factories and
    options too. An experiment's masses are `experiment.build().data.mass`. `order`, all
    client ids, cluster after cluster, is for those that cluster (cacs), whose matrix it
    is then; `fm.samplers.cluster_order` makes it of gradients.
    """
    found = {}
    for name in samplers:
        catalog.check_name("samplers", catalog.SAMPLERS, name)
        entry = catalog.SAMPLERS[name]
        more = {"order": order} if entry.factory is clustered_adaptive else {}
        found[name] = moments(entry.factory, mass, cohort, **entry.options, **more)
    if not found:
        raise ValueError("samplers must hold at least one name: got none")
    matrix = draw_matrix(mass, cohort, order)
    return Selection(np.asarray(mass), cohort, found, matrix)
