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
        content, why = b"", ""
        if processes.is_first():
            try:
                stack.enter_context(_locked(folder, argument))
                content = _packed(folder)
            except ValueError as error:
                why = str(error)
        if why := processes.from_first(why.encode()).decode():
            raise ValueError(why)
        content = processes.from_first(content)
        if processes.is_first():
            yield folder
            return
        copy = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(copy, filter="data")
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


def _packed(folder: Path) -> bytes:
    """All files of a folder but its lock."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.add(folder, ".", filter=lambda f: None if f.name == f"./{LOCK}" else f)
    return out.getvalue()


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
