"""One live line for people, a line now and then for log files."""

import sys
import time
from importlib.util import find_spec
from types import TracebackType

from fedjax_mos.machine import keeps_programs

_SILENCE = 30.0  # seconds between two lines of a log


class Progress:
    """Shows how far a run is: on a terminal, in a notebook or in a file."""

    def __init__(self, total: int, shown: bool, compiling: bool, done: int = 0) -> None:
        notebook = "ipykernel" in sys.modules
        if notebook and find_spec("ipywidgets"):
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        self.total, self.done, self.before = total, done, done
        self.live = shown and (sys.stderr.isatty() or notebook)
        self.logs = shown and not self.live
        self.began = self.spoke = time.perf_counter()
        self.bar = tqdm(total=total, initial=done, unit="round", disable=not self.live)
        if done and shown:
            self.write(f"resumed after round {done} of {total}")
        kept = " (kept for next time)" if keeps_programs() else ""
        if compiling and self.live:
            self.bar.set_description(f"compiling{kept}")
        elif compiling:
            self.say(f"compiling{kept}")

    def update(self, rounds: int, what: dict[str, str]) -> None:
        """So many rounds are done, and the model stands like this."""
        self.done += rounds
        self.bar.set_description("")
        self.bar.update(rounds)
        self.bar.set_postfix(what)
        now = time.perf_counter()
        if now - self.spoke > _SILENCE or self.done == self.total:
            self.spoke = now
            each = (now - self.began) / (self.done - self.before)
            left = each * (self.total - self.done)
            values = ", ".join(f"{name}={value}" for name, value in what.items())
            self.say(
                f"round {self.done}/{self.total}, {values}, {each:.3g} s/round, "
                f"{left:.0f} s left"
            )

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
