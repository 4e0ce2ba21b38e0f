"""Many rounds: `rollout` for transforms, `run` for people."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_mos import adapting
from fedjax_mos.types import (
    Adaptation,
    FederatedData,
    Key,
    PyTree,
    RoundInfo,
    RoundState,
    Simulation,
)

if TYPE_CHECKING:
    import pandas as pd

Evaluate = Callable[[Any, Any], dict[str, jax.Array]]


def rollout(
    sim: Simulation,
    data: FederatedData,
    state: RoundState,
    key: Key,
    rounds: int,
    *,
    evaluate: Evaluate | None = None,
    stores: PyTree = None,
    every: int = 1,
    remat: bool = False,
) -> tuple[RoundState, tuple[RoundInfo, dict[str, jax.Array]]]:
    """`rounds` rounds as one pure function: vmap it, differentiate it, jit it.

    Returns the last state, the info of every round [rounds] and
    `evaluate(params, stores)` after every `every` rounds [rounds / every].
    """
    if rounds % every:
        raise ValueError(f"rounds must be a multiple of every: {rounds} % {every} != 0")
    plain = partial(sim.step, data)
    step: Callable = jax.checkpoint(plain) if remat else plain

    def block(state: RoundState, numbers: jax.Array) -> tuple[RoundState, PyTree]:
        # The key of a round depends on its number alone, so 4 + 2 rounds equal 6.
        keys = jax.vmap(partial(jax.random.fold_in, key))(numbers)
        state, info = jax.lax.scan(step, state, keys)
        # Between scans, not by a cond: that would become a select under vmap.
        values = {} if evaluate is None else evaluate(state.server.params, stores)
        return state, (info, values)

    numbers = state.round + jnp.arange(rounds, dtype=jnp.int32)
    state, (info, values) = jax.lax.scan(block, state, numbers.reshape(-1, every))
    info = jax.tree.map(lambda leaf: leaf.reshape(rounds, *leaf.shape[2:]), info)
    return state, (info, values)


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
    adaptation: Adaptation | None = None,
    progress: bool = True,
) -> "tuple[RoundState, pd.DataFrame]":
    """Train and record: the last state, and one row of history per round.

    `evaluate(params, stores)` fills its columns every `every` rounds and after the
    last. `bits_up`, `bits_down` and `seconds` are cumulative; bits are exact integers.
    A batch of keys [S] with a state whose leaves have a leading axis S runs S
    simulations as one program, told apart by the column `lane`. An interrupt (Ctrl-C)
    ends the run after the block of rounds under way and returns what is there.
    `adaptation` revises the sampler's state on the host between blocks; what that costs
    counts in the round that follows.

    The caller's `state` stays usable.
    """
    from tqdm import tqdm

    if rounds < 1 or every < 1:
        raise ValueError(f"rounds and every must be at least 1: got {rounds}, {every}")
    if adaptation is not None and adaptation.warm_up and adaptation.warm is None:
        raise ValueError(
            "adaptation.warm must be the simulation of the warm-up rounds: got None"
        )
    # Blocks donate their state: give them one of their own, every leaf its own buffer.
    state = jax.tree.map(partial(jnp.array, copy=True), state)
    lanes, first = bool(key.shape), int(np.ravel(state.round)[0])
    (data, stores), (state, key) = sim.backend.place(
        (data, stores), (state, key), lanes
    )
    history = _History(lanes, first)
    bar = tqdm(total=rounds, unit="round", disable=not progress)
    with bar, patience() as interrupted:
        stops = adapting.stops(adaptation, first, rounds)
        for length, interval in _blocks(rounds, every, stops):
            now, measure = sim, evaluate if interval else None
            if adaptation is not None:
                at = first + history.rounds
                now = adapting.simulation_at(adaptation, sim, at)
                if adapting.due(adaptation, at):
                    state, *bits = adapting.revised(adaptation, data, state, lanes)
                    state = sim.backend.place((), state, lanes)[1]
                    history.charge(*bits)
            interval = interval or length
            state, out = _block(
                now, measure, data, stores, state, key, length, interval
            )
            history.add(out, interval)
            bar.update(length)
            bar.set_postfix(history.last)
            if interrupted.is_set():
                bar.write(f"interrupted after round {history.rounds} of {rounds}")
                if measure is None and evaluate is not None:
                    over = jax.vmap(evaluate, (0, None)) if lanes else evaluate
                    history.evaluated(over(state.server.params, stores))
                break
    return state, history.frame()


class _Handler:
    """The first interrupt sets `event`; the second one interrupts as usual."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self, number: int, frame: Any) -> None:
        if self.event.is_set():
            raise KeyboardInterrupt
        self.event.set()


@contextmanager
def patience() -> Iterator[threading.Event]:
    """An event that the first interrupt sets, so that work can end in good order.

    Inside another `patience` it is that one's: a loop over runs ends with its run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()  # only the main thread may handle signals
        return
    before = signal.getsignal(signal.SIGINT)
    handler = before if isinstance(before, _Handler) else _Handler()
    signal.signal(signal.SIGINT, handler)
    try:
        yield handler.event
    finally:
        signal.signal(signal.SIGINT, before)


def _advance(
    sim: Simulation,
    evaluate: Evaluate | None,
    data: FederatedData,
    stores: PyTree,
    state: RoundState,
    key: Key,
    length: int,
    every: int,
) -> tuple[RoundState, PyTree]:
    def one(read: PyTree, own: PyTree) -> tuple[RoundState, PyTree]:
        (data, stores), (state, key) = read, own
        options: dict[str, Any] = {
            "evaluate": evaluate,
            "stores": stores,
            "every": every,
        }
        return rollout(sim, data, state, key, length, **options)

    read, own = (data, stores), (state, key)
    return sim.backend.many(one, read, own) if key.shape else one(read, own)


_compiled = jax.jit(
    _advance,
    static_argnames=("sim", "evaluate", "length", "every"),
    donate_argnames=("state",),
)


def _block(
    sim: Simulation, evaluate: Evaluate | None, *args: Any
) -> tuple[RoundState, PyTree]:
    if sim.backend.traced:
        return _compiled(sim, evaluate, *args)
    with jax.disable_jit():  # scans become Python loops
        return _advance(sim, evaluate, *args)


def _blocks(
    rounds: int, every: int, stops: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """(rounds, evaluation interval) of each visit to the device.

    At most ten rounds a visit (or one interval), all visits equal so that one program
    serves them; what does not fit is a visit of its own. A visit also ends at `stops`,
    where the host has work; one that ends without an evaluation has interval 0.
    """
    out = []
    for start, stop in pairwise([0, *stops, rounds]):
        head = min(-start % every, stop - start)
        whole, tail = divmod(stop - start - head, every)
        most = max(10 // every, 1)
        per_visit = max(d for d in range(1, most + 1) if whole % d == 0)
        if head:
            met = (start + head) % every == 0 or start + head == rounds
            out.append((head, head if met else 0))
        out += [(per_visit * every, every)] * (whole // per_visit)
        if tail:
            out.append((tail, tail if stop == rounds else 0))
    return out


class _History:
    """Collects blocks on the host."""

    def __init__(self, lanes: bool, first: int) -> None:
        self.lanes = lanes
        self.first = first
        self.rounds = 0
        self.start = time.perf_counter()
        self.parts: list[dict[str, np.ndarray]] = []  # columns [lanes, rounds]
        self.last: dict[str, str] = {}
        self.owed = {"bits_up": np.zeros(1, int), "bits_down": np.zeros(1, int)}

    def charge(self, bits_up: list[int], bits_down: list[int]) -> None:
        """Bits [lanes] that count in the next round."""
        self.owed = {"bits_up": np.array(bits_up), "bits_down": np.array(bits_down)}

    def evaluated(self, values: PyTree) -> None:
        """Put `values` into the last round."""
        part = self.parts[-1]
        for name, value in jax.device_get(values).items():
            part[name] = np.full(part["bits_up"].shape, np.nan)
            part[name][:, -1] = value

    def add(self, out: PyTree, every: int) -> None:
        info, values = jax.device_get(out)  # the one transfer of the block
        if not self.lanes:
            info, values = jax.tree.map(lambda leaf: leaf[None], (info, values))
        lanes, length = info.bits_up.shape[:2]
        columns = {f"local_{name}": v for name, v in info.metrics.items()}
        for name, value in values.items():
            columns[name] = np.full((lanes, length), np.nan)
            columns[name][:, every - 1 :: every] = value
        columns["bits_up"] = info.bits_up.sum(-1, dtype=np.int64)
        columns["bits_down"] = info.bits_down.sum(-1, dtype=np.int64)
        for name, bits in self.owed.items():
            columns[name][:, 0] += bits
        self.charge([0], [0])
        seconds = time.perf_counter() - self.start
        columns["seconds"] = np.full((lanes, length), np.nan)
        columns["seconds"][:, -1] = seconds
        self.parts.append(columns)
        self.rounds += length
        self.last |= {  # as much as fits a line
            name: f"{float(value[:, -1].mean()):.4g}"
            for name, value in list(values.items())[:2]
        }

    def frame(self) -> "pd.DataFrame":
        import pandas as pd

        # A block without an evaluation lacks its columns.
        columns = {
            name: np.concatenate(
                [
                    part.get(name, np.full(part["bits_up"].shape, np.nan))
                    for part in self.parts
                ],
                axis=1,
            )
            for name in max(self.parts, key=len)
        }
        lanes, length = columns["bits_up"].shape
        for name in ("bits_up", "bits_down"):
            columns[name] = columns[name].cumsum(axis=1)
        columns["seconds"] = _spread(columns["seconds"])
        index = {
            "lane": np.repeat(np.arange(lanes), length),
            "round": np.tile(self.first + 1 + np.arange(length), lanes),
        }
        flat = {name: value.reshape(-1) for name, value in columns.items()}
        frame = pd.DataFrame(index | flat)
        return frame if self.lanes else frame.drop(columns="lane")


def _spread(seconds: np.ndarray) -> np.ndarray:
    """Times are known at the end of a visit; its rounds share them evenly."""
    rounds = np.arange(1, seconds.shape[1] + 1)
    known = ~np.isnan(seconds[0])
    ends = np.concatenate([[0], rounds[known]])
    return np.stack(
        [np.interp(rounds, ends, np.concatenate([[0], row[known]])) for row in seconds]
    )
