"""Files that unpack to more than they should, or are not what they state."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from fedjax_mos.data.sources import files, images
from fedjax_mos.data.sources.files import contents, open_files
from fedjax_mos.data.sources.formats import read_npz
from fedjax_mos.data.sources.images import read_image_folder

BOMB = bytes(2**20)


@pytest.fixture
def small(monkeypatch):
    """A machine on which a file may unpack to 64 KiB."""
    monkeypatch.setattr(files, "most_bytes", lambda: 2**16)


def tar(path):
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("a")
        info.size = len(BOMB)
        archive.addfile(info, io.BytesIO(BOMB))


def zipped(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", BOMB)


def folder(path):
    path.mkdir()
    (path / "a.gz").write_bytes(gzip.compress(BOMB))


@pytest.mark.parametrize(
    ("make", "name"), [(tar, "b.tar.gz"), (zipped, "b.zip"), (folder, "b")]
)
def test_archives(make, name, tmp_path, small):
    """A few kilobytes that fill the memory."""
    make(tmp_path / name)
    with pytest.raises((ValueError, OSError), match="unpacks to more than"):
        contents(open_files(tmp_path / name), "a")


def test_archives_that_fit(tmp_path):
    """The same files where there is room."""
    for make, name in ((tar, "b.tar.gz"), (zipped, "b.zip"), (folder, "b")):
        make(tmp_path / name)
        assert contents(open_files(tmp_path / name), "a") == BOMB


def arrays(x):
    return {"x_train": x, "y_train": np.zeros(3), "x_test": x, "y_test": np.zeros(3)}


def test_npz_that_unpacks_to_much(tmp_path, small):
    """The same for arrays."""
    np.savez_compressed(tmp_path / "a.npz", **arrays(np.zeros((3, 2**16))))
    with pytest.raises(ValueError, match="a.npz is not usable.*unpacks to more than"):
        read_npz(tmp_path / "a.npz")


def test_npz_that_states_another_shape(tmp_path):
    """A header that makes NumPy allocate what is not there."""
    np.savez(tmp_path / "a.npz", **arrays(np.zeros((3, 7), np.uint8)))
    data = (tmp_path / "a.npz").read_bytes()
    (tmp_path / "a.npz").write_bytes(data.replace(b"(3, 7), }   ", b"(3, 7777777)"))
    with pytest.raises(ValueError, match="a.npz is not usable"):
        read_npz(tmp_path / "a.npz")
    changed = data.replace(b"'shape': (3, 7), }      ", b"'shape': (3, 7777777), }")
    assert changed != data
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        held = {i.filename: old.read(i) for i in old.infolist()}
    held["x_train.npy"] = held["x_train.npy"].replace(
        b"'shape': (3, 7), }      ", b"'shape': (3, 7777777), }"
    )
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as new:
        for name, value in held.items():
            new.writestr(name, value)
    with pytest.raises(ValueError, match=r"states the shape \(3, 7777777\)"):
        read_npz(tmp_path / "b.npz")


def test_npz_with_objects(tmp_path):
    """A pickle inside an array."""
    np.savez(tmp_path / "a.npz", **arrays(np.array([[None]] * 3)))
    with pytest.raises(ValueError, match="holds objects"):
        read_npz(tmp_path / "a.npz")


def picture(root, part, pixels):
    (root / part / "cat").mkdir(parents=True)
    Image.fromarray(pixels).save(root / part / "cat" / "1.png")


def test_images_of_16_bits(tmp_path):
    """Grey values above 255 that all become 255."""
    for part in ("train", "test"):
        picture(tmp_path, part, np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(ValueError, match="1.png must have 8 bits per channel"):
        read_image_folder(open_files(tmp_path))


@pytest.mark.parametrize("side", [5_000, 10_000, 40_000])
def test_images_that_state_a_huge_size(side, tmp_path):
    """A hundred bytes that are unpacked to gigabytes."""
    for part in ("train", "test"):
        picture(tmp_path, part, np.zeros((4, 4), np.uint8))
    path = tmp_path / "train" / "cat" / "1.png"
    data = bytearray(path.read_bytes())
    data[16:24] = side.to_bytes(4, "big") * 2
    path.write_bytes(data)
    with pytest.raises(ValueError, match="1.png .*(pixels|readable image)"):
        read_image_folder(open_files(tmp_path))


def test_images_that_do_not_fit_together(tmp_path, monkeypatch):
    """All images are one array, whose size is known after the first."""
    for part in ("train", "test"):
        picture(tmp_path, part, np.zeros((4, 4), np.uint8))

    def check(what, needed, advice):
        assert needed == 2 * 2 * 16
        raise ValueError("too much")

    monkeypatch.setattr(images, "check_fits", check)
    with pytest.raises(ValueError, match="too much"):
        read_image_folder(open_files(tmp_path))


def test_other_byte_order(tmp_path):
    """Arrays of another machine, which JAX does not take."""
    import fedjax_mos as fm

    x, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    data = fm.arrays(x.astype(">f4"), y.astype(">i8"), x.astype(">f4"), y.astype(">i8"))
    assert np.array_equal(fm.federate(*data.train).x, x)
    assert np.array_equal(fm.federate(*data.train).y, y)
