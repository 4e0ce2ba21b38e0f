"""One input in, one outcome out: accepted, refused or trouble.

What is accepted stops where its first round would begin. An outcome is trouble if it is
a traceback, takes too long, accepts what is wrong, refuses what is right, changes a
value, or refuses without naming argument and value.
"""

import contextlib
import io
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_mos import cli, memory
from fedjax_mos.data.sources import origins
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.engine.visits import visits
from fedjax_mos.lab import compare, memory_checks
from fedjax_mos.lab.experiment import Experiment
from fedjax_mos.lab.hypergradients import tune
from fedjax_mos.lab.searches import search
from fedjax_mos.lab.sweeps import sweep

SECONDS = 20  # an input's limit
# One of these is in a message that says what is allowed.
_ALLOWED = re.compile(
    "must|takes|needs|there are|not both|twice|Error parsing|Unrecognized|invalid|"
    "Missing|no option|does not fit|holds no|is not|cannot|same option|ask for|is no |"
    "ambiguous|Numbers are|say|are the same|could not be|does not hold|give "
)


class Input(NamedTuple):
    """What is given, and what the generator knows of it."""

    kind: str
    call: list[str] | Callable[[], Any]  # words after fedjax-mos, or a Python call
    # For each thing that is wrong, words that a message about it must contain; an
    # alternative is a tuple. (): the input is right; None: nobody knows (damaged).
    wrong: tuple[tuple[Any, ...], ...] | None = ()
    # What experiments must have where they are accepted: a function that raises.
    check: Callable[[list[Experiment]], None] | None = None


class Outcome(NamedTuple):
    """What became of it."""

    trouble: str  # "" if all is well
    accepted: bool
    message: str


class Accepted(BaseException):
    """Raised where rounds would begin."""

    def __init__(self, experiments: list[Experiment]) -> None:
        super().__init__()
        self.experiments = experiments


class TooLong(BaseException):
    """Raised by the clock."""


# (module or class, name) -> where rounds or downloads would begin, or what memory is.
_REAL: dict[tuple[Any, str], Any] = {
    (where, name): getattr(where, name)
    for where, name in (
        (Experiment, "_run"),
        (compare, "_compare"),
        (tune, "differentiator"),
        (sweep, "_swept"),
        (search, "_searched"),
        (origins, "_download"),
        (origins, "_run"),
        (memory, "machine_memory"),
        (memory_checks, "machine_memory"),
    )
}


@contextlib.contextmanager
def no_rounds() -> Iterator[None]:
    """Let commands stop where they would start to train, or reach for the network."""

    def run(self: Experiment, seeds: int | None, *more: Any) -> None:
        _stop([self], seeds)

    def compared(members: Any, seeds: int, *more: Any) -> None:
        _stop(list(members.values()), seeds)

    def swept(experiment: Any, lanes: Any, *more: Any) -> None:
        raise Accepted([lane.experiment for lane in lanes])

    def searched(asked: Any, *more: Any) -> None:
        raise Accepted([lane.experiment for lane in asked.lanes])

    def differentiator(*given: Any) -> Any:
        _REAL[tune, "differentiator"](*given)

        def at(named: Any) -> None:
            raise Accepted([])

        return at

    def offline(*given: Any) -> None:
        raise OSError("there is no network here")

    def small() -> int:
        return 2**33  # whatever machine this is

    new = (run, compared, differentiator, swept, searched, offline, offline)
    new = (*new, small, small)
    pairs = zip(_REAL.items(), new, strict=True)
    with _replaced([(*where, old, change) for (where, old), change in pairs]):
        yield


@contextlib.contextmanager
def real_rounds() -> Iterator[None]:
    """Let what is made within `no_rounds` train all the same."""
    back = [
        (where, name, getattr(where, name), _REAL[where, name]) for where, name in _REAL
    ]
    with _replaced(back):
        yield


@contextlib.contextmanager
def _replaced(functions: list[Any]) -> Iterator[None]:
    for where, name, _, new in functions:
        setattr(where, name, new)
    try:
        yield
    finally:
        for where, name, old, _ in functions:
            setattr(where, name, old)


def _stop(experiments: list[Experiment], seeds: int | None) -> None:
    """As far as a run goes before anything is compiled."""
    for one in experiments:
        made = one.build(lanes=seeds or 1)
        jax.eval_shape(made.start, jax.random.key(0))
        next(visits(0, one.rounds, made.sim.host_update, Pace()))
    raise Accepted(experiments)


def outcome(given: Input, seconds: float = SECONDS) -> Outcome:
    """What becomes of an input, judged."""
    accepted, message, experiments = False, "", []
    errors = io.StringIO()
    try:
        with _clock(seconds), contextlib.redirect_stderr(errors):
            accepted, message, experiments = _tried(given.call)
    except TooLong:
        return Outcome(f"took more than {seconds} s", False, "")
    except BaseException:
        return Outcome(traceback.format_exc(limit=-3), False, "")
    message += errors.getvalue()
    trouble = ""
    if given.wrong is None:
        if not accepted:
            trouble = unclear(message, ((),))
    elif accepted and given.wrong:
        trouble = "accepted what is wrong"
    elif not accepted and not given.wrong:
        trouble = "refused what is right"
    elif accepted and given.check:
        try:
            given.check(experiments)
        except AssertionError as error:
            trouble = f"accepted another value: {error}"
    elif not accepted:
        trouble = unclear(message, given.wrong)
    return Outcome(trouble, accepted, message)


def _tried(call: Any) -> tuple[bool, str, list[Experiment]]:
    """(accepted, message, experiments); anything unexpected is raised."""
    if callable(call):
        try:
            found = call()
            return True, "", [found] if isinstance(found, Experiment) else []
        except ValueError as error:
            return False, str(error), []
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            cli.main(call)
    except Accepted as found:
        return True, "", found.experiments
    except SystemExit as end:
        if end.code not in (0, 2):
            raise AssertionError(f"exit status {end.code}") from None
        return not end.code, printed.getvalue(), []
    return True, "", []


def unclear(message: str, wrong: tuple[tuple[Any, ...], ...]) -> str:
    """Why a message does not say what to change; "" if it does."""
    text = " ".join(message.split())
    if "Traceback" in text:
        return "a traceback"
    if not _ALLOWED.search(text):
        return "the message does not say what is allowed"
    if not any(all(_there(word, text) for word in words) for words in wrong):
        return f"the message names none of {wrong}"
    return ""


def _there(word: Any, text: str) -> bool:
    words = word if isinstance(word, tuple) else (word,)
    return any(w in text for w in words)


@contextlib.contextmanager
def _clock(seconds: float) -> Iterator[None]:
    def ring(*given: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def same(found: Any, wanted: Any) -> bool:
    """Whether a value is what was given, as far as float32 tells."""
    if isinstance(wanted, float) and isinstance(found, int | float | np.ndarray):
        return bool(np.allclose(np.float32(found), np.float32(wanted), rtol=1e-6))
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
