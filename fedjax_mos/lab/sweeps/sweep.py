"""Many configurations and seeds of an experiment as one program."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from fedjax_mos._version import __version__
from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.folders import config, fingerprint
from fedjax_mos.lab.run_folder import alone
from fedjax_mos.lab.structure import hp_of
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.lab.sweeps.grid import Range, configurations
from fedjax_mos.lab.sweeps.lanes import Lane, Piece, lanes, pieces
from fedjax_mos.lab.sweeps.ledger import Ledger, assemble

if TYPE_CHECKING:
    import pandas as pd


def sweep(
    experiment: Experiment,
    points: Sequence[Mapping[str, Any]] | None = None,
    *,
    seeds: int = 1,
    random: int | None = None,
    independent: bool = False,
    width: int | None = None,
    out: Path | str | None = None,
    progress: bool = True,
    **over: Iterable[Any] | Range,
) -> Cube:
    """Run `experiment` with every combination of the values in `over`, and `seeds`.

    A name is any option (`lr`, `uplink.kappa`, `partition.alpha`; with a dot as
    `**{"uplink.kappa": [...]}`) or field (`algorithm`, `cohort`) of the experiment.
    Its values are a list, or a `Range` that is drawn from `random` times. `points`
    lists configurations one by one, and is crossed with the rest.

    Configurations that differ in float numbers and seeds only are lanes of one
    compiled program; other choices make one program each. Lanes run `width` at a time;
    by default as many as fit 4 MiB per CPU device, or 1 GiB of an accelerator, by a
    rough count of their states and of their clients' work (`lanes.fitting`).

    Configurations see the same seeds, so that they differ by their numbers and not by
    luck, unless they are `independent`. Each lane is the run of the experiment with its
    numbers and its seed. One that diverges is marked and disturbs no other.

    With `out`, finished pieces are kept in that folder as parquet files, and the same
    call is resumed where it was interrupted. An interrupt (Ctrl-C) gives up the piece
    under way and returns what is finished.
    """
    check_experiment(experiment)
    tried = configurations(points, over, random, experiment.seed)
    all_lanes = lanes(experiment, tried, seeds, independent)
    for one in (lane.experiment for lane in all_lanes):
        if one.stop_at is not None or one.cohorts:
            raise ValueError(
                "a sweep runs all rounds and keeps no cohorts: stop_at and cohorts "
                f"must not be given, got {one.stop_at} and {one.cohorts}"
            )
    cut = pieces(all_lanes, width)
    if out is None:
        return _swept(experiment, all_lanes, cut, Ledger({}, None), progress)
    with alone(Path(out)):
        ledger = Ledger(_plan(experiment, all_lanes, cut), Path(out))
        return _swept(experiment, all_lanes, cut, ledger, progress)


def _swept(
    experiment: Experiment,
    all_lanes: Sequence[Lane],
    cut: Sequence[Piece],
    ledger: Ledger,
    progress: bool,
) -> Cube:
    """All pieces that the ledger does not have."""
    from tqdm import tqdm

    todo = [i for i in range(len(cut)) if i not in ledger.parts]
    built = None
    shown = {"total": len(cut), "initial": len(cut) - len(todo), "unit": "piece"}
    bar = tqdm(**shown, disable=not progress)
    with bar, deferred_interrupt() as interrupted:
        for i in todo:
            inside = [all_lanes[lane] for lane in cut[i].lanes]
            if built is None or built[0] != cut[i].group:
                built = cut[i].group, inside[0].experiment.build(lanes=cut[i].width)
            history = _history(built[1], inside, cut[i])
            if history is not None:
                ledger.add(i, history)
                bar.update()
            if interrupted.is_set():
                break
    if not ledger.parts:
        raise KeyboardInterrupt
    frame = assemble([lane.label for lane in all_lanes], ledger.parts)
    return Cube(frame, _axes(all_lanes), len(ledger.parts) == len(cut), experiment)


def check_names(over: Mapping[str, Any]) -> None:
    """Raise a ValueError for a name that `sweep` itself takes."""
    for name in over.keys() & inspect.signature(sweep).parameters.keys():
        raise ValueError(f"{name} is no option to sweep over: say --{name}")


def _history(
    made: Assembled, inside: Sequence[Lane], piece: Piece
) -> "pd.DataFrame | None":
    """A piece's rounds with the lanes' own numbers; None if it was interrupted."""
    # Every piece of a group has the same shapes: the last lane fills the last piece up.
    members = [lane.experiment for lane in inside]
    members += members[-1:] * (piece.width - len(members))
    every = [hp_of(member, made.sim) for member in members]
    hp = jax.tree.map(lambda *values: np.stack(values), *every)
    seeds = np.array([member.seed for member in members], np.int32)
    state, key = made.begin(seeds, hp)
    one = members[0]
    _, history = made.run(state, key, one.rounds, every=one.eval_every, progress=False)
    lost = history["diverged"].groupby(history["lane"]).transform("any")
    if history["round"].max() < one.rounds and not lost.all():
        return None
    history["diverged"] = lost  # every row of a run
    history = history[history["lane"] < len(inside)].reset_index(drop=True)
    history["lane"] = np.array(piece.lanes)[history["lane"]]
    return history


def _axes(lanes: Sequence[Lane]) -> tuple[str, ...]:
    return tuple(n for n in lanes[0].label if n not in ("configuration", "seed"))


def _plan(
    experiment: Experiment, lanes: Sequence[Lane], cut: Sequence[Piece]
) -> dict[str, Any]:
    """All that the pieces' contents depend on."""
    return {
        "kind": "sweep",
        "version": __version__,
        "data": fingerprint(experiment.build().stores),
        "experiment": config(experiment, "sweep")["experiment"],
        "own": experiment.own,
        "axes": _axes(lanes),
        "lanes": [lane.label for lane in lanes],
        "pieces": [piece._asdict() for piece in cut],
    }
