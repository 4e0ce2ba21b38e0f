"""Many rounds for people: progress, history, interrupts, work on the host."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos.backends.placing import whole_rows
from fedjax_mos.contents import contents
from fedjax_mos.engine import host_updates
from fedjax_mos.engine.block import MOST, advance, is_compiled
from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.checks import typed_key
from fedjax_mos.engine.endings import DIVERGED, DONE, FULL, INTERRUPTED, Stop, ended_by
from fedjax_mos.engine.history import History
from fedjax_mos.engine.interrupts import Pace, deferred_interrupt
from fedjax_mos.engine.progress import Progress
from fedjax_mos.engine.rollout import Evaluate, Report
from fedjax_mos.engine.visits import evaluated_in, visits
from fedjax_mos.engine.working_set import WorkingSet
from fedjax_mos.folder_lock import alone
from fedjax_mos.processes import of_all, on_host, several
from fedjax_mos.schedule import check_length
from fedjax_mos.tree import fingerprint
from fedjax_mos.types import (
    FederatedData,
    Key,
    PyTree,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    import pandas as pd


def run(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    rounds: int,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    every: int = 1,
    report: Report | None = None,
    progress: bool = True,
    stop: Stop | None = None,
    checkpoints: Checkpoints | Path | str | None = None,
    working: WorkingSet | None = None,
    donate: bool = False,
) -> "tuple[RoundState, pd.DataFrame]":
    """Train and record: the last state, and one row of history per round.

    `evaluate(state, stores)` fills its columns every `every` rounds and after the last.
    `report(state, info)` gives a dictionary of further columns after every round; an
    array fills a cell. `bits_up`, `bits_down` and `seconds` are cumulative; bits are
    exact integers. `local_NAME` are the means of what clients measure.

    A batch of keys [S] with a state whose leaves have a leading axis S runs S
    simulations as one program, told apart by the column `lane`. An interrupt (Ctrl-C)
    ends the run after the rounds under way (about two seconds, or one round) and
    returns what is there; so does `stop(frame)`, asked after every tenth round if one
    of the ten was evaluated, when it is true. What a sampler's work on the host costs
    counts in the round that follows.

    `diverged` is true from the round on in which a loss or a parameter was no finite
    number; a run whose lanes have all diverged ends there. With `checkpoints`, a
    folder, the state is kept there from time to time, and the same call resumes from
    it, bit for bit. `frame.attrs["ended"]` says why the run ended.

    `working` is for rows on disk and generated clients. The caller's `state` stays
    usable unless `donate` gives its rows away, which spares a copy of them.
    """
    if rounds < 1 or every < 1:
        raise ValueError(f"rounds and every must be at least 1: got {rounds}, {every}")
    key = typed_key(key)
    if isinstance(checkpoints, Path | str):
        whole = whole_rows(state, data.size.shape[0], bool(key.shape))
        about = {
            "data": fingerprint(data),
            "start": fingerprint(on_host(whole)),
            "simulation": contents((sim.step, sim.host_update, evaluate, report)),
            "every": every,
        }
        with alone(Path(checkpoints), "checkpoints") as folder:
            return run(
                sim,
                data,
                state,
                key,
                rounds,
                evaluate=evaluate,
                stores=stores,
                every=every,
                report=report,
                progress=progress,
                stop=stop,
                checkpoints=Checkpoints(folder, about),
                working=working,
                donate=donate,
            )
    lanes, first = bool(key.shape), int(np.ravel(state.round)[0])
    last, clients = first + rounds, data.size.shape[0]
    check_length(state.hp, last)
    history = History(lanes, first)
    if checkpoints is not None:
        numbers = np.asarray(jax.random.key_data(key)).tolist()
        layout = sim.backend.name
        checkpoints = checkpoints.of(layout, first=first, key=numbers)
        if found := checkpoints.latest(whole_rows(state, clients, lanes)):
            state, columns, metrics = found
            history.restore(columns, metrics)
            if history.rounds > rounds:
                raise ValueError(
                    f"rounds must be at least {history.rounds}, as were run: "
                    f"got {rounds}"
                )
            history.forget_extra(every, last)
    (data, stores), (state, key) = _placed(sim, data, stores, state, key, donate)
    update = sim.host_update
    known = working is None and is_compiled(
        sim, evaluate, report, data, stores, state, key
    )
    go, most = (advance, MOST) if working is None else (working.advance, working.rounds)
    bar = Progress(rounds, progress, compiling=not known, done=history.rounds)
    begun, pace = first + history.rounds, Pace()
    ended = ended_by(history, begun, last, every, stop)
    with bar, deferred_interrupt() as interrupted:
        for begin, end in visits(begun, last, update, pace, most):
            if ended:
                break
            if update is not None and host_updates.due(update, begin):
                bar.waiting("the sampler is at work")
                state = whole_rows(state, clients, lanes)
                state = on_host(state) if several() else state
                state, *bits = host_updates.updated(update, data, state, lanes)
                state = sim.backend.place((), state, lanes)[1]
                history.charge(*bits)
            now = host_updates.simulation_at(sim, begin)
            flags = evaluated_in(begin, end, last, every)
            with pace.measured(end - begin):
                state, out = go(
                    now, evaluate, report, data, stores, state, key, end - begin, flags
                )
                history.add(out, end - begin, flags)
            bar.update(end - begin, history.last)
            ended = ended_by(history, end, last, every, stop)
            # Looked at once in a visit, by all processes.
            if not ended and any(of_all(interrupted.is_set())):
                ended = INTERRUPTED
            if working is not None and working.failed:
                ended = ended or FULL
            elif (
                checkpoints
                and checkpoints.wanted(ended == INTERRUPTED, bool(ended))
                and not history.diverged.all()
            ):
                kept = whole_rows(state, clients, lanes)
                if working is not None and not working.flush():
                    ended = ended or FULL
                elif (
                    checkpoints.save(end, kept, history.columns(), history.metrics)
                    and working is not None
                ):
                    state = working.saved(state)
            if ended in (INTERRUPTED, FULL) and evaluate and not flags[end - begin - 1]:
                over = jax.vmap(evaluate, (0, None)) if lanes else evaluate
                over = jax.jit(over) if several() else over  # arrays are elsewhere too
                history.evaluated(over(state, stores))
        if ended and ended != DONE:
            good = checkpoints and ended == DIVERGED and checkpoints.newest()
            bar.write(
                f"{ended} after round {history.rounds} of {rounds}"
                + (f"; the last good checkpoint is {good}" if good else "")
                + (f": {working.failed}" if working and working.failed else "")
            )
    frame = history.frame()
    frame.attrs["ended"] = ended
    return state, frame


def compile_run(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    report: Report | None = None,
) -> None:
    """Compile what `run` with these arguments would, by a block of no rounds."""
    if not sim.backend.traced:
        return
    (data, stores), (state, key) = _placed(sim, data, stores, state, key)
    first = host_updates.simulation_at(sim, int(np.ravel(state.round)[0]))
    none = np.zeros(MOST, bool)
    advance(first, evaluate, report, data, stores, state, key, 0, none)


def _placed(
    sim: Simulation,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    donate: bool = False,
) -> tuple[tuple[FederatedData, PyTree], tuple[RoundState, Key]]:
    """Everything where the backend wants it, and a state that blocks may donate."""
    # Every leaf its own buffer. Rows, of which there may be very many, become ours.
    rows = state.clients if donate else ()
    state = jax.tree.map(
        partial(jnp.array, copy=True), state._replace(clients=()) if donate else state
    )
    if donate:
        state = state._replace(clients=_ours(rows))
        del rows
    return sim.backend.place((data, stores), (state, key), bool(key.shape))


_ours = jax.jit(lambda rows: rows, donate_argnums=0)
