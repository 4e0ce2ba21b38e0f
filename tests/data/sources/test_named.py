"""Data sets by name, and where their files are looked for."""

import gzip
import time
from pathlib import Path

import numpy as np
import pytest

from fedjax_mos.data.sources import SOURCES, load, locate

SHARED = Path(__file__).parents[3].parent / "shared" / "data"
X = np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4)
Y = np.array([0, 1, 2, 0, 1, 2])


def idx(values):
    """An array as an IDX file of bytes."""
    values = np.asarray(values, np.uint8)
    shape = np.array(values.shape, ">u4").tobytes()
    return bytes([0, 0, 8, values.ndim]) + shape + values.tobytes()


def write_idx(folder, pixel, suffix=""):
    """Four tiny IDX files whose pixels all have one value."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, n in (("train", 3), ("t10k", 2)):
        pack = gzip.compress if suffix else bytes
        x = pack(idx(np.full((n, 28, 28), pixel)))
        (folder / f"{part}-images-idx3-ubyte{suffix}").write_bytes(x)
        (folder / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(range(n))))


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    """No data of this machine may leak into a test."""
    monkeypatch.delenv("FEDJAX_MOS_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(locate, "SYSTEM", tmp_path / "system")


def test_npz_by_prefix_and_by_path(tmp_path):
    """A user's own npz would not load, or not by both spellings."""
    path = tmp_path / "own.npz"
    np.savez(path, x_train=X, y_train=Y, x_test=X, y_test=Y, x_valid=X, y_valid=Y)
    for name in (str(path), f"npz:{path}"):
        data = load(name)
        assert data.train.x.shape == (6, 4, 4, 1) and len(data.valid.y) == 6
    with pytest.raises(FileNotFoundError, match="absent.npz"):
        load("npz:absent.npz")


def test_unknown_name_and_options():
    """A typing error would end in a KeyError or be ignored."""
    with pytest.raises(ValueError, match="digits, synthetic, .*mnist.*got 'minst'"):
        load("minst")
    with pytest.raises(ValueError, match=r"digits takes no options: got \['alpha'\]"):
        load("digits", alpha=1.0)


@pytest.mark.parametrize("name", [n for n, s in SOURCES.items() if s.stored])
def test_missing_data_says_what_to_do_at_once(name, tmp_path):
    """A user without the data would wait for a network or not learn the command."""
    start = time.perf_counter()
    with pytest.raises(FileNotFoundError) as error:
        load(name, data_dir=tmp_path)
    assert time.perf_counter() - start < 1
    assert f"fedjax-mos data get {name}" in str(error.value)
    assert SOURCES[name].stored.layout.needed in str(error.value)
    assert str(tmp_path / "cache" / "fedjax_mos" / "data") in str(error.value)


def test_every_source_is_described():
    """A catalog would list a nameless or ambiguous row."""
    for source in SOURCES.values():
        assert source.description and source.cites
        assert (source.stored is None) != (source.generate is None)


def test_search_order(tmp_path, monkeypatch):
    """A folder given by the user would lose against the environment or the cache."""
    given, env = tmp_path / "given", tmp_path / "env"
    write_idx(tmp_path / "system" / "fashion-mnist", 4, ".gz")
    assert load("fashion_mnist").train.x.max() == 4
    write_idx(locate.cache() / "fashion_mnist", 3)
    assert load("fashion_mnist").train.x.max() == 3
    write_idx(env / "FashionMNIST" / "raw", 2)
    monkeypatch.setenv("FEDJAX_MOS_DATA", str(env))
    assert load("fashion_mnist").train.x.max() == 2
    write_idx(given, 1)
    assert load("fashion_mnist", data_dir=given).train.x.max() == 1


def test_mnist_is_never_taken_for_fashion(tmp_path, monkeypatch):
    """Same file names: a search of shared folders would load the wrong images."""
    write_idx(tmp_path / "mnist", 1)
    write_idx(tmp_path, 1)
    monkeypatch.setenv("FEDJAX_MOS_DATA", str(tmp_path))
    assert load("mnist").mean == pytest.approx(0.1307 * 255)
    with pytest.raises(FileNotFoundError):
        load("fashion_mnist")


def test_wrong_data_dir(tmp_path):
    """A mistyped folder would silently fall back to another copy."""
    write_idx(locate.cache() / "mnist", 3)
    with pytest.raises(FileNotFoundError, match="data_dir.*absent"):
        load("mnist", data_dir=tmp_path / "absent")


def test_wrong_content_names_the_file(tmp_path):
    """CIFAR-100 labels in mnist.npz would train a model of the wrong size."""
    np.savez(tmp_path / "mnist.npz", x_train=X, y_train=Y + 50, x_test=X, y_test=Y)
    with pytest.raises(ValueError, match=r"mnist.npz does not hold mnist: y_train"):
        load("mnist", data_dir=tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_real_data(name):
    """The real files would not load or the stored constants would not fit them."""
    if not (SHARED / f"{name}.npz").is_file():
        pytest.skip(f"{name}.npz is not beside the repository")
    data = load(name, data_dir=SHARED)
    assert data.train.x.shape == (60000, 28, 28, 1) and data.test.x.shape[0] == 10000
    assert data.train.x.dtype == np.uint8 and data.train.y.dtype == np.int32
    np.testing.assert_allclose(data.train.x.mean(), data.mean, rtol=1e-3)
    np.testing.assert_allclose(data.train.x.std(), data.std, rtol=1e-3)
