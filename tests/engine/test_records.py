"""Records of one size in a file."""

import errno
import fcntl
import io
import os
from types import SimpleNamespace

import numpy as np
import pytest

from fedjax_mos.engine import records as records_of_files
from fedjax_mos.engine.records import Records

ROWS = {
    "a number": np.arange(5.0),
    "few numbers": np.arange(15, dtype=np.float32).reshape(5, 3),
    "booleans": np.arange(20).reshape(5, 2, 2) % 3 == 0,
    "large": np.arange(5 * 20_001, dtype=np.float32).reshape(5, 3, 6667),
}


def written(path, rows):
    records = Records(path, rows[0])
    records.grow_to(4)
    records.grow_to(6)
    records.grow_to(5)
    records.write(np.array([3, 0, 5]), rows[:3])
    records.write(np.array([0]), rows[3:4])
    return records


def refusing_to_open(monkeypatch, number=errno.EINVAL):
    """A file system that opens no file past the cache."""
    real = os.open

    def refuse(path, flags, *more):
        if flags & getattr(os, "O_DIRECT", 0):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)


def refusing_to_work(monkeypatch):
    """One that opens it, and then wants larger blocks."""

    class Refusing(io.FileIO):
        def _check(self):
            if fcntl.fcntl(self, fcntl.F_GETFL) & getattr(os, "O_DIRECT", 0):
                raise OSError(errno.EINVAL, "Invalid argument")

        def readinto(self, buffer):
            self._check()
            return super().readinto(buffer)

        def write(self, content):
            self._check()
            return super().write(content)

    fake = SimpleNamespace(FileIO=Refusing)
    monkeypatch.setattr(records_of_files, "io", fake)


FILES = {
    "direct": lambda monkeypatch: None,
    "not opened": refusing_to_open,
    "not read": refusing_to_work,
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("files", FILES)
def test_what_is_written_is_read(tmp_path, monkeypatch, rows, files):
    """A record of another size or type, at another place, or a neighbour's."""
    FILES[files](monkeypatch)
    assert written(tmp_path / "a", rows).count == 6
    again = Records(tmp_path / "a", rows[0])
    found = np.zeros((4, *rows.shape[1:]), rows.dtype)
    again.read(np.array([5, 0, 3]), found, np.array([0, 3, 2]))
    np.testing.assert_array_equal(found[[0, 2, 3]], rows[[2, 0, 3]])
    assert not found[1].any()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.ENOENT])
def test_other_errors_are_raised(tmp_path, monkeypatch, number):
    """Too many open files, taken for a file system that wants the cache."""
    refusing_to_open(monkeypatch, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        written(tmp_path / "a", ROWS["large"])


@pytest.mark.parametrize("way", ["absent", "refused"])
def test_room_is_made_by_writing_where_it_cannot_be_reserved(
    tmp_path, monkeypatch, way
):
    """A file that says it has room, on a disk that has none."""

    def refuse(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    if way == "absent":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse)
    monkeypatch.setattr(records_of_files, "_ZEROS", 5000)
    records = Records(tmp_path / "a", ROWS["large"][0])
    records.grow_to(3)
    records.grow_to(5)
    status = (tmp_path / "a").stat()
    assert records.count == 5 and status.st_blocks * 512 >= status.st_size


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_a_file_that_was_cut_is_noticed(tmp_path, rows):
    """What a buffer held before, in place of a record that is gone."""
    records = written(tmp_path / "a", rows)
    os.truncate(tmp_path / "a", (tmp_path / "a").stat().st_size // 6 * 5)
    with pytest.raises(OSError, match="a ends before its record 5"):
        records.read(np.array([5]), np.zeros_like(rows), np.array([0]))


@pytest.mark.skipif(not hasattr(os, "O_DIRECT"), reason="the system has no such files")
def test_large_records_pass_the_cache(tmp_path, monkeypatch):
    """A second copy of the rows in memory that they were to spare."""
    real, flags = os.open, []

    def seen(path, flag, *more):
        flags.append(flag)
        return real(path, flag, *more)

    monkeypatch.setattr(os, "open", seen)
    written(tmp_path / "a", ROWS["large"])
    assert any(flag & os.O_DIRECT for flag in flags)
    flags.clear()
    written(tmp_path / "b", ROWS["few numbers"])
    assert flags and not any(flag & os.O_DIRECT for flag in flags)
