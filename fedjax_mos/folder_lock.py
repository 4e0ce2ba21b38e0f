"""Folders that one process at a time writes to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


@contextmanager
def alone(folder: Path, argument: str = "out") -> Iterator[None]:
    """Make `folder`, and keep other processes from writing to it meanwhile."""
    with refused(folder, argument):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise ValueError(
                f"{argument} must be a folder that no other process writes to: "
                f"{folder} is in use"
            ) from None
    try:
        yield
    finally:
        lock.release()  # the file stays: another process may be waiting for it


@contextmanager
def refused(folder: Path, argument: str = "out") -> Iterator[None]:
    """An error of the operating system, in the terms of an argument."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"{argument} must be a folder that can be written: {folder} cannot "
            f"({error})"
        ) from error
