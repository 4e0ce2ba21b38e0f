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
        self.bar = tqdm(total=total, initial=done, unit=unit, disable=not self.live)
        if done and shown:
            self.write(f"resumed after {unit} {done} of {total}")
        kept = " (kept for next time)" if keeps_programs() else ""
        if compiling and self.live:
            self.bar.set_description(f"compiling{kept}")
        elif compiling:
            self.say(f"compiling{kept}")

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
            pace = [f"{each:.3g} s/{self.unit}", f"{left:.0f} s left"]
            at = f"{self.unit} {self.done}/{self.total}"
            self.say(", ".join([at, *values, *pace]))

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
