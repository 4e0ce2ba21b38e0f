"""Many configurations and seeds of an experiment as one program."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_mos.engine.checkpoints import EVERY, Checkpoints
from fedjax_mos.engine.endings import Stop
from fedjax_mos.engine.interrupts import deferred_interrupt
from fedjax_mos.engine.progress import Progress
from fedjax_mos.folder_lock import alone
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.experiment import Experiment, check_experiment
from fedjax_mos.lab.folders import as_json
from fedjax_mos.lab.stopping import LaneStop, stop_of
from fedjax_mos.lab.sweeps.cube import Cube
from fedjax_mos.lab.sweeps.grid import Range, configurations
from fedjax_mos.lab.sweeps.lanes import Lane, Piece, axes_of, lanes, pieces
from fedjax_mos.lab.sweeps.ledger import Ledger, assemble, plan_of
from fedjax_mos.lab.sweeps.piece_runs import beginning, check_lanes, own_rows
from fedjax_mos.processes import of_all

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
    stop: Stop | None = None,
    out: Path | str | None = None,
    progress: bool = True,
    checkpoint_every: float = EVERY,
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
    numbers and its seed, to the last digits (which rounds that do not contract blow
    up). One that diverges is marked and disturbs no other.

    `stop(frame)`, asked of every run by itself with its own rows, may end it between
    blocks of rounds, as the field `stop_at` does; a piece goes on until all have ended.

    With `out`, finished pieces are kept in that folder as parquet files, the piece
    under way as checkpoints, and the same call is resumed where it was interrupted. An
    interrupt (Ctrl-C) returns what is finished.
    """
    check_experiment(experiment)
    tried = configurations(points, over, random, experiment.seed)
    all_lanes = lanes(experiment, tried, seeds, independent)
    check_lanes(all_lanes, may_stop=True)
    cut = pieces(all_lanes, width)
    if out is None:
        return _swept(experiment, all_lanes, cut, Ledger({}, None), stop, progress)
    with alone(Path(out)) as out:
        every = [piece._asdict() for piece in cut]
        axes, labels = axes_of(all_lanes), [lane.label for lane in all_lanes]
        plan = plan_of(
            "sweep",
            experiment,
            [lane.experiment for lane in all_lanes],
            axes=axes,
            lanes=labels,
            configurations=[as_json(point) for point in tried],
            pieces=every,
            stop=as_json(stop),
        )
        ledger = Ledger(plan, out, checkpoint_every)
        return _swept(experiment, all_lanes, cut, ledger, stop, progress)


def _swept(
    experiment: Experiment,
    all_lanes: Sequence[Lane],
    cut: Sequence[Piece],
    ledger: Ledger,
    stop: Stop | None,
    progress: bool,
) -> Cube:
    """All pieces that the ledger does not have."""
    todo = [i for i in range(len(cut)) if i not in ledger.parts]
    built = None
    bar = Progress(len(cut), progress, done=len(cut) - len(todo), unit="piece")
    with bar, deferred_interrupt() as interrupted:
        for i in todo:
            if built is None or built[0] != cut[i].group:
                one = all_lanes[cut[i].lanes[0]].experiment
                built = cut[i].group, one.build(lanes=cut[i].width)
            kept = ledger.checkpoints(i)
            history = _history(built[1], all_lanes, cut[i], stop, kept)
            if history is not None:
                ledger.add(i, history)
                bar.update(1)
            if any(of_all(interrupted.is_set())):
                break
    if not ledger.parts:
        raise KeyboardInterrupt
    frame = assemble([lane.label for lane in all_lanes], ledger.parts)
    return Cube(frame, axes_of(all_lanes), len(ledger.parts) == len(cut), experiment)


def check_names(over: Mapping[str, Any], study: Callable) -> None:
    """Raise a ValueError for a name that `study`, such as `sweep`, itself takes."""
    for name in over.keys() & inspect.signature(study).parameters.keys():
        raise ValueError(f"{name} is no option to {study.__name__} over: say --{name}")


def _history(
    made: Assembled,
    lanes: Sequence[Lane],
    piece: Piece,
    stop: Stop | None,
    checkpoints: Checkpoints | None,
) -> "pd.DataFrame | None":
    """A piece's rounds with the lanes' own numbers; None if it was interrupted."""
    state, key = beginning(made, lanes, piece)
    one = lanes[piece.lanes[0]].experiment
    enough = stop_of(one.stop_at, stop)
    ends = None if enough is None else LaneStop(enough)
    _, history = made.run(
        state,
        key,
        one.rounds,
        every=one.eval_every,
        progress=False,
        stop=ends,
        checkpoints=checkpoints,
    )
    return own_rows(history, piece, ends)
