"""One experiment: the frozen dataclass shared by notebooks and the command line.

>>> result = Experiment(rounds=2).run(progress=False)
>>> list(result.frame.columns[:4])
['round', 'local_loss', 'test_accuracy', 'test_loss']
"""

import dataclasses
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.backends.auto import backend_parts
from fedjax_mos.data.partition_files import write_partition
from fedjax_mos.data.partitions import Partition, histogram
from fedjax_mos.data.sources.named import check_source, is_grouped
from fedjax_mos.engine.checkpoints import EVERY, Checkpoints
from fedjax_mos.engine.cohorts import report_cohort, split_cohorts
from fedjax_mos.engine.endings import FULL, INTERRUPTED, Stop
from fedjax_mos.engine.rollout import Report
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab import catalog, folders, options, pictures
from fedjax_mos.lab.assemble import assemble
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.client_frame import client_frame
from fedjax_mos.lab.describe import describe
from fedjax_mos.lab.parts import TRACED, Parts, parts_of
from fedjax_mos.lab.printed import Printed
from fedjax_mos.lab.result import Result
from fedjax_mos.lab.resumed_rows import as_resumed
from fedjax_mos.lab.run_folder import RunFolder, given_back
from fedjax_mos.lab.setting import Method
from fedjax_mos.lab.stopping import stop_of
from fedjax_mos.lab.trackers import Track, check_trackers, telling, tracking
from fedjax_mos.schedule import check_constant, check_length
from fedjax_mos.types import Key, RoundState

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Experiment(Method):
    """An algorithm and a sampler on a federated data set.

    Every component is a name of `fedjax-mos list` or an object: an algorithm or sampler
    is `fm.spec` of a factory (or the factory), a sampler or channel also a built one, a
    model a flax module or `fm.models.Model` of functions, a data set `fm.arrays`,
    `fm.from_frame` or `fm.federate`d data (or a mapping of those, of which "train" is
    trained on and all are evaluated), a loss and metrics functions
    `(outputs, y) -> [B]`.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.backend, str):
            backend_parts(self.backend)
        if isinstance(self.dataset, str):
            check_source(self.dataset)
        if isinstance(self.loss, str):
            catalog.check_name("loss", catalog.LOSSES, self.loss)
        hp = {kind: self.parts[kind].spec.hp for kind in TRACED}  # checks all options
        check_length(hp, self.rounds)
        for kind in self.parts.keys() - hp.keys():
            check_constant(kind, self.parts[kind].spec.hp)

    @cached_property
    def parts(self) -> Parts:
        """Kind -> component, with all its options."""
        return parts_of(self)

    @property
    def dataset_name(self) -> str:
        """The data set's name, for messages and per-dataset defaults."""
        return self.dataset if isinstance(self.dataset, str) else "own data"

    @property
    def title(self) -> str:
        """ALGORITHM/SAMPLER."""
        return f"{self.parts['algorithm'].name}/{self.parts['sampler'].name}"

    @property
    def own(self) -> tuple[str, ...]:
        """What was given as an object: a file cannot bring it back."""
        made = [kind for kind, part in self.parts.items() if part.own]
        fields = ((n, getattr(self, n)) for n in ("loss", "metrics", "backend"))
        functions = [n for n, value in fields if not isinstance(value, str | None)]
        return (*made, *functions, *self._own_options())

    @property
    def dataset_defaults(self) -> catalog.DatasetDefaults:
        """The partition, model and target where nothing is said."""
        client = self.options.get("client", self.options.get("dataset.client"))
        if is_grouped(self.dataset, client):
            return catalog.OTHER_GROUPED
        return catalog.DATASET_DEFAULTS.get(self.dataset_name, catalog.OTHER)

    def build(self, *, lanes: int = 1, platform: str | None = None) -> Assembled:
        """Load the data and put the simulation together; nothing is compiled yet.

        So many `lanes` will run as one program, which may want another layout. For
        another `platform` (cuda, tpu) it can be traced, exported and compiled here.
        """
        return assemble(self, lanes, platform)

    def run(
        self,
        seeds: int | None = None,
        *,
        progress: bool = True,
        stop: Stop | None = None,
        out: Path | str | None = None,
        target: float | None = None,
        picture: bool = True,
        checkpoint_every: float = EVERY,
        track: Track = (),
    ) -> Result:
        """Train; with `seeds`, so many runs from `seed` on as one program.

        The frame has one row per round (and seed). `stop(frame)` may end the run
        between blocks of rounds, as the field `stop_at` does. With `out`, a folder, the
        result is written there (with rounds to `target` and a `picture`), checkpoints
        every so many seconds until then, and the same call resumes a run that was
        ended; a finished one is read. A disk that refuses is said, and the result
        returned. `track` names who is told the rows between blocks: csv, parquet,
        tensorboard, wandb, trackio, or functions `(round, numbers by name)`.
        """
        self.check_seeds(seeds)
        trackers = check_trackers(track, out)
        if not checkpoint_every >= 0:
            raise ValueError(
                f"checkpoint_every must be a number of seconds: got {checkpoint_every}"
            )
        if out is None:
            return self._run(seeds, progress, stop, None)
        with alone(Path(out)) as out, given_back(out):
            folder = RunFolder(out, self, seeds, target, stop)
            if folder.done:
                return folder.read(progress)
            checkpoints = folder.checkpoints(checkpoint_every)
            with tracking(trackers, Path(out), folder.stored) as tell:
                told = telling(tell, stop) if trackers else stop
                result = self._run(seeds, progress, told, checkpoints)
                tell(result.frame)
            folder.write(result, target, picture)
        return result

    def _run(
        self,
        seeds: int | None,
        progress: bool,
        stop: Stop | None,
        checkpoints: Checkpoints | None,
    ) -> Result:
        made = as_resumed(self, checkpoints).build(lanes=seeds or 1)
        if progress:
            clients, name = made.data.size.shape[0], self.parts["model"].name
            print(
                f"{self.title} on {self.dataset_name}: {clients} clients, "
                f"model {name}, layout: {made.sim.backend.name}",
                file=sys.stderr,
                flush=True,
            )
        rows = None if checkpoints is None else checkpoints.folder.with_name("rows")

        def named(frame: "pd.DataFrame") -> "pd.DataFrame":
            if seeds is None:
                return frame
            frame = frame.assign(lane=frame["lane"] + self.seed)
            return frame.rename(columns={"lane": "seed"})

        enough = stop_of(self.stop_at, stop)
        state, frame = made.run(
            *self._start(made, seeds),
            self.rounds,
            every=self.eval_every,
            report=self._report,
            progress=progress,
            stop=enough and (lambda frame: enough(split_cohorts(named(frame))[0])),
            checkpoints=checkpoints,
            rows=rows,
            donate=True,
        )
        ended = frame.attrs["ended"]
        frame, cohorts = split_cohorts(named(frame))
        return Result(
            self,
            frame,
            state.server.params,
            state,
            complete=ended not in (INTERRUPTED, FULL),
            full=ended == FULL,
            cohorts=cohorts,
            clients=client_frame(made, state, cohorts, seeds and self.seed),
        )

    def describe(self, seeds: int | None = None) -> Printed:
        """What a run would hold in memory, and why it would be refused; `.text()`."""
        self.check_seeds(seeds)
        return describe(self, seeds)

    def compile(self, seeds: int | None = None) -> None:
        """Compile what `run` needs, so that it starts at once."""
        made = self.build(lanes=seeds or 1)
        made.compile(*self._start(made, seeds), report=self._report)

    def write_partition(self, path: Path | str) -> None:
        """Keep who owns which example; `partition="npz:PATH"` gives it back.

        Before any are held out, which the other experiment may do itself.
        """
        write_partition(path, dataclasses.replace(self, held_out=0.0)._partition())

    def _partition(self) -> Partition:
        made = self.build()
        made.check_whole("a partition")
        return Partition(np.asarray(made.data.order), np.asarray(made.data.size))

    def partition_map(self) -> "Figure":
        """Which classes clients have, and how many examples."""
        counts = histogram(self._partition(), np.asarray(self.build().data.y))
        name = self.parts["partition"].name
        return pictures.partition_map(counts, f"{self.dataset_name}, {name}")

    @property
    def _report(self) -> Report | None:
        return report_cohort if self.cohorts else None

    def _start(self, made: Assembled, seeds: int | None) -> tuple[RoundState, Key]:
        more = 0 if seeds is None else np.arange(seeds, dtype=np.int32)
        return made.begin(np.int32(self.seed) + more)

    def _own_options(self) -> list[str]:
        """Options that were given as a Spec or an object, such as an optimizer."""
        given = [n for n, value in self.options.items() if folders.is_object(value)]
        homes = [options.home(name, self.parts) for name in given]
        return [".".join([kind, *path]) for kind, path in homes]


def check_experiment(experiment: object) -> None:
    """Raise a ValueError for anything else."""
    if not isinstance(experiment, Experiment):
        raise ValueError(
            "experiment must be an fm.Experiment, whose components may be your own: "
            f"got {type(experiment).__name__}"
        )
