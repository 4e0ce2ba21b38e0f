"""Records of one size in a file."""

import os

import numpy as np
import pytest

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


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("direct", [True, False])
def test_what_is_written_is_read(tmp_path, monkeypatch, rows, direct):
    """A record of another size or type, at another place, or a neighbour's."""
    if not direct:  # as a file system without it answers
        real = os.open

        def refuse(path, flags, *more):
            if flags & getattr(os, "O_DIRECT", 0):
                raise OSError(22, "Invalid argument")
            return real(path, flags, *more)

        monkeypatch.setattr(os, "open", refuse)
    assert written(tmp_path / "a", rows).count == 6
    again = Records(tmp_path / "a", rows[0])
    found = np.zeros((4, *rows.shape[1:]), rows.dtype)
    again.read(np.array([5, 0, 3]), found, np.array([0, 3, 2]))
    np.testing.assert_array_equal(found[[0, 2, 3]], rows[[2, 0, 3]])
    assert not found[1].any()


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
