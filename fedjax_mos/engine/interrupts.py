"""Interrupts (Ctrl-C) that let the work under way end in good order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
    before = signal.getsignal(signal.SIGINT)
    handler = before if isinstance(before, _Handler) else _Handler()
    signal.signal(signal.SIGINT, handler)
    try:
        yield handler.event
    finally:
        signal.signal(signal.SIGINT, before)
