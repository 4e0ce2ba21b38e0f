"""An experiment made ready to run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import jax

from fedjax_mos.client.losses import Apply
from fedjax_mos.engine.block import block_of
from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.rollout import Evaluate, Report
from fedjax_mos.engine.run import Stop, compile_run, run
from fedjax_mos.types import (
    FederatedData,
    Key,
    Metrics,
    Params,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    import pandas as pd


class Assembled(NamedTuple):
    """An experiment made ready: the pieces of the low-level interface."""

    sim: Simulation
    data: FederatedData
    stores: dict[str, FederatedData]
    evaluate: Evaluate
    start: Callable[..., tuple[RoundState, Key]]  # (key, hp=None) -> state, run's key
    # The same from a seed, or from seeds [S] with all numbers [S, ...] (or the
    # experiment's own): a program by itself, not for transforms.
    begin: Callable[..., tuple[RoundState, Key]]
    apply: Apply  # raw x -> outputs
    shapes: Params  # of the parameters
    by_client: Callable[..., Metrics] | None = None  # (state, stores) -> leaves [N]

    def metrics(self) -> list[str]:
        """Names of what `evaluate` measures."""
        state, _ = jax.eval_shape(self.start, jax.random.key(0))
        return list(jax.eval_shape(self.evaluate, state, self.stores))

    def block(
        self, state: RoundState, key: Key, report: Report | None = None
    ) -> tuple[Callable, tuple]:
        """A block of rounds as a jitted function, and its arguments or their shapes.

        To be looked at, exported or compiled for the platform that it was built for.
        """
        return block_of(
            self.sim,
            self.data,
            state,
            key,
            evaluate=self.evaluate,
            stores=self.stores,
            report=report,
        )

    def compile(
        self, state: RoundState, key: Key, report: Report | None = None
    ) -> None:
        """Compile what `run` needs, and run nothing."""
        compile_run(
            self.sim,
            self.data,
            state,
            key,
            evaluate=self.evaluate,
            stores=self.stores,
            report=report,
        )

    def run(
        self,
        state: RoundState,
        key: Key,
        rounds: int,
        *,
        every: int = 1,
        report: Report | None = None,
        progress: bool = True,
        stop: Stop | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> "tuple[RoundState, pd.DataFrame]":
        """`fm.run` from what `start` gave, for one lane or several."""
        return run(
            self.sim,
            self.data,
            state,
            key,
            rounds,
            evaluate=self.evaluate,
            stores=self.stores,
            every=every,
            report=report,
            progress=progress,
            stop=stop,
            checkpoints=checkpoints,
        )
