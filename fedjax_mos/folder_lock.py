"""Folders that one process at a time writes to."""

import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fedjax_mos import processes

LOCK = ".lock"
_PIECE = 2**26  # bytes that are sent at a time: a folder may be larger than memory


@contextmanager
def alone(folder: Path, argument: str = "out") -> Iterator[Path]:
    """Make `folder`, and keep others from writing to it meanwhile; where to write.

    Of several processes that run together the first has the folder itself. The others
    have a copy of what is in it, so that they resume what it resumes and need not see
    its disk; the copy goes when they are done.
    """
    with ExitStack() as stack:
        if not processes.several():
            stack.enter_context(_locked(folder, argument))
            yield folder
            return
        why = ""
        if processes.is_first():
            try:
                stack.enter_context(_locked(folder, argument))
            except ValueError as error:
                why = str(error)
        if why := processes.from_first(why.encode()).decode():
            raise ValueError(why)
        if processes.is_first():
            _send(folder)
            yield folder
            return
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _receive(copy)
        yield copy


@contextmanager
def _locked(folder: Path, argument: str) -> Iterator[None]:
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


def _send(folder: Path) -> None:
    """All files of a folder but its lock, to the other processes."""
    with io.BufferedWriter(stream := processes.Stream(), _PIECE) as buffer:
        with tarfile.open(fileobj=buffer, mode="w|") as archive:
            archive.add(
                folder, ".", filter=lambda f: None if f.name == f"./{LOCK}" else f
            )
        buffer.flush()
        stream.write(b"")


def _receive(folder: Path) -> None:
    """What the first process sends."""
    with io.BufferedReader(processes.Stream(), _PIECE) as buffer:
        with tarfile.open(fileobj=buffer, mode="r|") as archive:
            archive.extractall(folder, filter="data")
        while buffer.read(_PIECE):  # what archives are filled up with
            pass


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
