"""Tables and pictures that a result and a comparison of several have in common."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedjax_mos.lab import catalog, pictures, summaries, tables
from fedjax_mos.lab.printed import Printed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fedjax_mos.lab.result import Result

Targets = float | Sequence[float] | None


class Shown:
    """What can be shown of `members`: results by name."""

    if TYPE_CHECKING:

        @property
        def members(self) -> "Mapping[str, Result]": ...

        @property
        def complete(self) -> bool: ...

    def table(
        self,
        target: Targets = None,
        *,
        metric: str | None = None,
        at: Sequence[int] = (),
        baseline: str | None = None,
        spread: str = "std",
    ) -> "pd.DataFrame":
        """One row per member, numbers only: see `printed` for the arguments."""
        asked = self._asked(target, metric, at, baseline, spread)
        return tables.comparison(self._frames, asked)

    def printed(
        self,
        target: Targets = None,
        *,
        metric: str | None = None,
        at: Sequence[int] = (),
        baseline: str | None = None,
        spread: str = "std",
    ) -> Printed:
        """The table as people read it: `.text()`, `.markdown()`, `.latex()`, `.csv()`.

        `target` is one or several values of `metric` (by default the main one, and
        what is usual for the data set) to count rounds to, `at` lists rounds to show
        the metric after. Against a `baseline` there are speed-ups, differences and a
        paired test over common seeds. `spread` is std, sem or ci95.
        """
        asked = self._asked(target, metric, at, baseline, spread)
        return tables.printed(tables.comparison(self._frames, asked), asked)

    def text(self, target: Targets = None) -> str:
        """The table for a terminal."""
        return self.printed(target).text()

    def curves(
        self,
        metrics: Sequence[str] | None = None,
        *,
        x: str = "round",
        band: str = "std",
        smooth: int = 1,
    ) -> "Figure":
        """Metrics (by default loss and accuracy) by round, with bands over seeds.

        `x` is round, bits, gradients or seconds, `band` std, sem or ci95, `smooth` the
        window of a moving average.
        """
        per_round = self._examples_per_round if x == "gradients" else None
        return pictures.curves(
            self._frames,
            metrics=metrics,
            x=x,
            band=band,
            smooth=smooth,
            per_round=per_round,
        )

    def deviations(self, window: int, metric: str | None = None) -> "pd.Series":
        """Mean squared deviation from a moving average, by member, mean over seeds."""
        import pandas as pd

        def mean(frame: "pd.DataFrame") -> float:
            name = summaries.check_metric(frame, metric)
            runs = summaries.by_seed(frame).values()
            return float(np.mean([summaries.deviation(r, name, window) for r in runs]))

        return pd.Series({name: mean(frame) for name, frame in self._frames.items()})

    def target_bars(
        self, targets: Targets = None, metric: str | None = None
    ) -> "Figure":
        """Rounds to each target, as bars."""
        first = next(iter(self.members.values()))
        wanted = first.targets_of(targets, metric)
        if not wanted:
            raise ValueError(f"targets must be given for {metric}")
        return pictures.target_bars(self._frames, wanted, metric)

    def selection(self) -> "Figure":
        """Who took part how often, and the variance of weights."""
        frames = {
            n: r.cohorts for n, r in self.members.items() if r.cohorts is not None
        }
        if not frames:
            raise ValueError("selection needs cohorts: run with cohorts=True")
        sizes = {n: _sizes(self.members[n]) for n in frames}
        return pictures.selection(frames, sizes)

    def client_distributions(self, metric: str | None = None) -> "Figure":
        """How clients fare, each on its own examples."""
        frames = {
            n: r.clients for n, r in self.members.items() if r.clients is not None
        }
        known = [name for frame in frames.values() for name in _own_metrics(frame)]
        if not known:
            raise ValueError(
                "client_distributions needs clients that were measured: run with "
                "per_client='global' or 'personal'"
            )
        accuracy = [name for name in known if name.endswith("accuracy")]
        return pictures.client_distributions(frames, metric or (accuracy or known)[0])

    @property
    def diverged(self) -> dict[str, int]:
        """Members that diverged, with the first round in which a seed did."""
        first = {n: summaries.diverged_at(frame) for n, frame in self._frames.items()}
        return {name: at for name, at in first.items() if at is not None}

    @property
    def untuned(self) -> tuple[str, ...]:
        """Members whose method has numbers for this data set in no catalog, unless
        all have none."""
        marks = {name: _tuned(result) for name, result in self.members.items()}
        if not any(marks.values()):
            return ()
        return tuple(name for name, tuned in marks.items() if tuned is False)

    @property
    def _frames(self) -> "dict[str, pd.DataFrame]":
        return {name: result.by_seed for name, result in self.members.items()}

    @cached_property
    def _examples_per_round(self) -> dict[str, float]:
        from fedjax_mos.lab.gradient_count import examples_per_round

        known = {n: r.experiment for n, r in self.members.items() if r.experiment}
        if len(known) < len(self.members):
            raise ValueError(
                "x=gradients needs experiments, not those read with objects"
            )
        return {name: examples_per_round(one) for name, one in known.items()}

    def _asked(
        self,
        target: Targets,
        metric: str | None,
        at: Sequence[int],
        baseline: str | None,
        spread: str,
    ) -> tables.Asked:
        wanted = {n: r.targets_of(target, metric) for n, r in self.members.items()}
        return tables.Asked(wanted, metric, at, baseline, spread, self.untuned)


def _tuned(result: "Result") -> bool | None:
    """Whether the numbers of a member are for its data; None: the user chose them."""
    one = result.experiment
    if one is None or not isinstance(one.algorithm, str) or one.options:
        return None
    return one.dataset_name in catalog.ALGORITHMS[one.algorithm].tuned


def _own_metrics(clients: "pd.DataFrame") -> list[str]:
    counted = ("seed", "client", "examples", "participations")
    names = [str(name) for name in clients if name not in counted]
    return [name for name in names if not name.startswith("personal_")]


def _sizes(result: "Result") -> np.ndarray:
    """Examples of every client."""
    if result.clients is None:
        raise ValueError("selection needs the sizes of clients, which were not kept")
    frame = result.clients
    return frame[["client", "examples"]].drop_duplicates()["examples"].to_numpy()
