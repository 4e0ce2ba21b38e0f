"""A folder or an archive as one tree of names and bytes; nothing is ever extracted."""

import gzip
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from fedjax_mos.memory import gib, machine_memory


class Files(NamedTuple):
    """Names with forward slashes, and how to read one."""

    path: Path  # for messages
    names: list[str]
    read: Callable[[str], bytes]


def open_files(path: Path) -> Files:
    """The files below a folder, or those in a .tar, .tar.gz, .tgz or .zip archive."""
    if path.is_dir():
        return _folder(path)
    try:
        return _zip(path) if path.suffix == ".zip" else _tar(path)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error) as e:
        if isinstance(e, FileNotFoundError):
            raise
        raise ValueError(f"{path} is not a readable archive: {e}") from e


def member(files: Files, *choices: str) -> str | None:
    """The shallowest file called by the first of `choices` that exists, gzip or not."""
    for choice in choices:
        for wanted in (choice, f"{choice}.gz"):
            hits = [n for n in files.names if PurePosixPath(n).name == wanted]
            if hits:
                return min(hits, key=lambda n: (n.count("/"), n))
    return None


def contents(files: Files, *choices: str) -> bytes:
    """What that file holds, decompressed."""
    name = member(files, *choices)
    if name is None:
        raise ValueError(f"{files.path} holds no file {' or '.join(choices)}")
    data = files.read(name)
    if not name.endswith(".gz") or name.endswith(choices):
        return data
    try:
        return _unzipped(data)
    except (OSError, EOFError, zlib.error) as e:
        raise ValueError(f"{files.path}/{name} is not a whole gzip file: {e}") from e


def most_bytes() -> int:
    """What a file may unpack to: what is made of it must fit the machine besides."""
    return machine_memory() // 4


def check_unpacked(size: int, what: str) -> None:
    """Raise an OSError for a file that unpacks to too much."""
    if size > most_bytes():
        raise OSError(f"{what} unpacks to more than {gib(most_bytes())}")


def _unzipped(data: bytes) -> bytes:
    """What gzip data hold, read no further than allowed."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        found = stream.read(most_bytes() + 1)
    check_unpacked(len(found), "it")
    return found


def _folder(path: Path) -> Files:
    names = [
        (Path(folder) / name).relative_to(path).as_posix()
        for folder, _, leaves in os.walk(path)
        for name in leaves
    ]
    return Files(path, sorted(names), lambda name: (path / name).read_bytes())


def _zip(path: Path) -> Files:
    archive = zipfile.ZipFile(io.BytesIO(path.read_bytes()))
    infos = {i.filename: i for i in archive.infolist() if not i.is_dir()}

    def read(name: str) -> bytes:
        # No more than the stated size is ever read of a member.
        check_unpacked(infos[name].file_size, f"{path}/{name}")
        return archive.read(name)

    return Files(path, sorted(infos), read)


def _tar(path: Path) -> Files:
    # Decompressed at once: seeking in a gzip stream starts again from its beginning.
    raw = path.read_bytes()
    raw = _unzipped(raw) if raw[:2] == b"\x1f\x8b" else raw
    archive = tarfile.open(fileobj=io.BytesIO(raw), mode="r:")  # noqa: SIM115
    members = {m.name: m for m in archive.getmembers() if m.isfile()}

    def read(name: str) -> bytes:
        stream = archive.extractfile(members[name])
        assert stream is not None  # a regular file always has one
        return stream.read()

    return Files(path, sorted(members), read)
