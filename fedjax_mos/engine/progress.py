"""One live line for people, a line now and then for log files."""

import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from types import TracebackType

from fedjax_mos.machine import keeps_programs

_SILENCE = 30.0  # seconds between two lines of a log


class Progress:
    """Shows how far a run or study is: on a terminal, in a notebook or in a file."""

    def __init__(
        self,
        total: int,
        shown: bool,
        compiling: bool = False,
        done: int = 0,
        unit: str = "round",
    ) -> None:
        notebook = "ipykernel" in sys.modules
        if notebook and find_spec("ipywidgets"):
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        self.total, self.done, self.before, self.unit = total, done, done, unit
        self.live = shown and (sys.stderr.isatty() or notebook)
        self.logs = shown and not self.live
        self.began = self.spoke = time.perf_counter()
        self.paced = False  # whether `began` and `before` are those of the pace
        self.bar = tqdm(total=total, initial=done, unit=unit, disable=not self.live)
        if done and shown:
            self.write(f"resumed after {unit} {done} of {total}")
        kept = " (kept for next time)" if keeps_programs() else ""
        if compiling and self.live:
            self.bar.set_description(f"compiling{kept}")
        elif compiling:
            self.say(f"compiling{kept}")

    def waiting(self, what: str) -> None:
        """Say what keeps the next rounds waiting."""
        self.bar.set_description(what)
        if not self.paced:
            self.say(what)

    def update(self, more: int, what: Mapping[str, str] | None = None) -> None:
        """So many more are done, and the model stands like this."""
        self.done += more
        self.bar.set_description("")
        self.bar.update(more)
        self.bar.set_postfix(what or {})
        now = time.perf_counter()
        if now - self.spoke > _SILENCE or self.done == self.total:
            self.spoke = now
            each = (now - self.began) / (self.done - self.before)
            left = each * (self.total - self.done)
            values = [f"{name}={value}" for name, value in (what or {}).items()]
            known = self.paced or self.done == self.total
            pace = [f"{each:.3g} s/{self.unit}", f"{left:.0f} s left"] * known
            at = f"{self.unit} {self.done}/{self.total}"
            self.say(", ".join([at, *values, *pace]))
        if not self.paced:  # compiling and a warm-up come once, before the first
            self.paced, self.began, self.before = True, now, self.done

    def say(self, line: str) -> None:
        """A line of its own, in a log."""
        if self.logs:
            print(line, file=sys.stderr, flush=True)

    def write(self, line: str) -> None:
        """A line of its own, above the live one."""
        self.bar.write(line, file=sys.stderr)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.close()
