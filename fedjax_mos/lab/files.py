"""Files that appear whole or not at all, and what happens where none can."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedjax_mos.processes import is_first

PARTIAL = ".partial-"  # begins the names of files that are not whole yet


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to, which becomes `path` when the block has ended well.

    So a full disk or an end in the middle leaves what was there before. It has the same
    ending, by which some writers choose a format.
    """
    partial = path.with_name(f"{PARTIAL}{path.name}")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def digests(paths: Iterable[Path]) -> dict[str, str]:
    """Name -> hash of every file that is there."""
    found = {}
    for path in paths:
        if path.is_file():
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def attempt(write: Callable[[], None], folder: Path) -> None:
    """Write results; where that fails say so and go on: they are still in memory.

    Of several processes the first writes.
    """
    if not is_first():
        return
    try:
        write()
    except OSError as error:
        print(
            f"could not write to {folder}: {error}. Earlier results are as they were; "
            "the same call resumes from the last checkpoint, or runs again",
            file=sys.stderr,
        )
