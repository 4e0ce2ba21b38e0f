"""Interrupts (Ctrl-C, SIGTERM) that let the work under way end in good order."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2.0  # seconds that an interrupt may have to wait


class _Handler:
    """The first interrupt sets `event`; the second one interrupts as usual."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self, number: int, frame: Any) -> None:
        if self.event.is_set():
            raise KeyboardInterrupt
        self.event.set()


@contextmanager
def deferred_interrupt() -> Iterator[threading.Event]:
    """An event that the first interrupt sets, so that work can end in good order.

    Inside another one it is that one's: a loop over runs ends with its run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield threading.Event()  # only the main thread may handle signals
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    outer = before[signal.SIGINT]
    handler = outer if isinstance(outer, _Handler) else _Handler()
    for number in _SIGNALS:
        signal.signal(number, handler)
    try:
        yield handler.event
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Pace:
    """How many rounds at a time let an interrupt wait for about two seconds."""

    def __init__(self, each: float = _PATIENCE) -> None:
        self.each = each  # seconds a round; the first one shows it

    def rounds(self) -> int:
        """As many as fit, at least one."""
        return max(1, int(_PATIENCE / max(self.each, 1e-3)))

    @contextmanager
    def measured(self, rounds: int) -> Iterator[None]:
        """Time so many rounds."""
        begin = time.perf_counter()
        yield
        self.each = (time.perf_counter() - begin) / rounds
