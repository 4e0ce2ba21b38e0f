"""Every kind of input, and how often it is drawn."""

import random
from collections.abc import Callable

from tests.bad_input import claimed, command_lines, files, folders, python_calls
from tests.bad_input.harness import Input

KINDS: dict[Callable[[random.Random], Input], int] = {
    command_lines.run: 30,
    command_lines.compare: 9,
    command_lines.sweep: 8,
    command_lines.search: 4,
    command_lines.tune: 4,
    command_lines.cite: 5,
    command_lines.words_only: 5,
    files.csv: 5,
    files.npz: 8,
    files.archive: 3,
    files.images: 4,
    files.config: 8,
    claimed.onto: 4,
    python_calls.experiment: 6,
    python_calls.partition: 3,
    python_calls.federate: 2,
    python_calls.frame: 2,
}
# These read results, which take half a minute to make.
READERS: dict[Callable[[random.Random], Input], int] = {
    folders.show: 2,
    folders.intact: 1,
    folders.damaged: 3,
}


def draw(rng: random.Random, readers: bool = False) -> Input:
    """One input."""
    kinds = KINDS | (READERS if readers else {})
    return rng.choices(list(kinds), list(kinds.values()))[0](rng)
