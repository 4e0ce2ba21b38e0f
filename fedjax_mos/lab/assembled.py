"""An experiment made ready to run."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax

from fedjax_mos.client.losses import Apply
from fedjax_mos.data.generated import Generated
from fedjax_mos.engine.block import block_of
from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.endings import Stop
from fedjax_mos.engine.rollout import Evaluate, Report
from fedjax_mos.engine.row_store import RowStore
from fedjax_mos.engine.run import compile_run, run
from fedjax_mos.engine.working_set import WorkingSet
from fedjax_mos.lab.memory_checks import check_room
from fedjax_mos.models import count
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
    generated: Generated | None = None  # whose examples `data` has not
    on_disk: bool = False  # clients' rows: `begin` then gives one that all start with

    def __repr__(self) -> str:
        """Counts and shapes."""
        return (
            f"Assembled(data={self.data}, stores={[*self.stores]}, "
            f"parameters={count(self.shapes)}, layout={self.sim.backend.name})"
        )

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
        """Compile what `run` needs, and run nothing; a working set's is not."""
        if self.on_disk or self.generated is not None:
            return
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
        rows: Path | None = None,
        donate: bool = False,
    ) -> "tuple[RoundState, pd.DataFrame]":
        """`fm.run` from what `begin` gave, for one lane or several.

        `rows` is the folder for those on disk; by default one that goes with the run.
        """
        state, working = self._working(state, rows)
        found = run(
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
            working=working,
            donate=donate,
        )
        if rows and checkpoints and not checkpoints.newest():  # nothing to resume from
            shutil.rmtree(rows, ignore_errors=True)
        return found

    def check_whole(self, what: str) -> None:
        """Raise a ValueError where rows or examples are not all in memory."""
        if self.on_disk:
            raise ValueError(f"{what} needs all rows in memory: they are on disk")
        if self.generated is not None:
            raise ValueError(f"{what} needs stored examples: clients are generated")

    def _working(
        self, state: RoundState, folder: Path | None
    ) -> tuple[RoundState, WorkingSet | None]:
        """What runs on working sets; None where memory holds everything."""
        rows = None
        if self.on_disk:
            clients = self.data.size.shape[0]
            check_room(state.clients, clients, folder)
            rows = RowStore(state.clients, folder)
            state = state._replace(clients=rows.begin(clients))
        elif self.generated is None:
            return state, None
        return state, WorkingSet(self.sim, self.data, state, rows, self.generated)
