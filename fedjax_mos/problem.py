"""An experiment made ready to run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from fedjax_mos.run import run
from fedjax_mos.types import (
    Adaptation,
    FederatedData,
    Key,
    Metrics,
    Params,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    import pandas as pd


class Problem(NamedTuple):
    """An experiment made ready: the pieces of the low-level interface."""

    sim: Simulation
    data: FederatedData
    stores: dict[str, FederatedData]
    evaluate: Callable[[Params, Any], Metrics]
    start: Callable[..., tuple[RoundState, Key]]  # (key, hp=None) -> state, run's key
    apply: Callable[[Params, jax.Array, Key | None], jax.Array]  # raw x -> logits
    adaptation: Adaptation | None = None  # what `run` does between rounds

    def metrics(self) -> list[str]:
        """Names of what `evaluate` measures."""
        state, _ = jax.eval_shape(self.start, jax.random.key(0))
        return list(jax.eval_shape(self.evaluate, state.server.params, self.stores))

    def run(
        self,
        state: RoundState,
        key: Key,
        rounds: int,
        *,
        every: int = 1,
        progress: bool = True,
    ) -> "tuple[RoundState, pd.DataFrame]":
        """`fm.run` of this problem from what `start` gave, for one lane or several."""
        return run(
            self.sim,
            self.data,
            state,
            key,
            rounds,
            evaluate=self.evaluate,
            stores=self.stores,
            every=every,
            adaptation=self.adaptation,
            progress=progress,
        )
