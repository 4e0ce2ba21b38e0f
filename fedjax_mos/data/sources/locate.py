"""Where a data set's files lie."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fedjax_mos.machine import cache_folder

SYSTEM = Path("/usr/share/datasets")  # where Debian's data set packages install


class Layout(NamedTuple):
    """How a data set looks on disk."""

    folders: tuple[str, ...]  # the names its folder goes by
    markers: tuple[str, ...]  # one of these files, or archives, is in that folder
    needed: str  # for the error message


def cache() -> Path:
    """The folder into which `fedjax-mos data get` puts data sets."""
    return cache_folder() / "data"


def roots(data_dir: str | Path | None = None) -> list[Path]:
    """Folders to search, in order: given, FEDJAX_MOS_DATA, the cache, the system's."""
    given = [data_dir, os.environ.get("FEDJAX_MOS_DATA"), cache(), SYSTEM]
    return [Path(folder).expanduser() for folder in given if folder]


def locate(name: str, layout: Layout, data_dir: str | Path | None = None) -> Path:
    """The npz file, folder or archive holding data set `name`."""
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise FileNotFoundError(f"data_dir {str(data_dir)!r} is not a folder")
    for root in roots(data_dir):
        npz = root / f"{name}.npz"
        if npz.is_file():
            return npz
        # Only a folder the caller points at may hold the files themselves: MNIST and
        # Fashion-MNIST have the same file names.
        direct = data_dir is not None and root == Path(data_dir).expanduser()
        for hit in _hits(root, layout, direct):
            return hit if _is_archive(hit) else hit.parent
    searched = "\n".join(f"  {root}" for root in roots(data_dir))
    raise FileNotFoundError(
        f"{name} is not on this machine. Get it with\n"
        f"  fedjax-mos data get {name}\n"
        f"or put {layout.needed}\n"
        f"into a folder {layout.folders[0]}/, or {name}.npz with x_train, y_train, "
        f"x_test, y_test, below one of\n{searched}"
    )


def _hits(root: Path, layout: Layout, direct: bool) -> Iterator[Path]:
    """Markers in the data set's folder or one level below; archives also beside it."""
    for folder in layout.folders:
        for marker in layout.markers:
            for pattern in (marker, f"*/{marker}"):
                found = sorted((root / folder).glob(pattern))
                yield from (path for path in found if path.is_file())
    for marker in layout.markers:
        path = root / marker
        if path.is_file() and (direct or _is_archive(path)):
            yield path


def _is_archive(path: Path) -> bool:
    return path.name.endswith((".tar.gz", ".tgz", ".zip"))
