"""Data sets by name, their validation, and where their files are looked for."""

import gzip
import time
from pathlib import Path

import numpy as np
import pytest

from fedjax_mos.data.sources import locate
from fedjax_mos.data.sources.named import SOURCES, arrays, load

SHARED = Path(__file__).parents[2].parent / "shared" / "data"
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


def test_digits():
    """Digits would change split, unit or shape between runs or releases."""
    data, again = load("digits"), load("digits")
    assert [len(p.y) for p in (data.train, data.valid, data.test)] == [1078, 359, 360]
    assert data.train.x.shape == (1078, 8, 8, 1)
    assert data.train.x.dtype == np.uint8 and data.train.y.dtype == np.int32
    assert data.train.x.max() == 16 and data.classes == 10
    np.testing.assert_array_equal(data.test.x, again.test.x)
    rows = np.concatenate([p.x for p in (data.train, data.valid, data.test)])
    from sklearn.datasets import load_digits

    assert rows.sum() == load_digits().data.sum()
    z = (data.train.x.astype(np.float32) - data.mean) / data.std
    assert abs(z.mean()) < 1e-4 and abs(z.std() - 1) < 1e-4


def test_synthetic_shape_and_groups():
    """Clients would lose examples, labels their range, or the seed its effect."""
    data = load("synthetic", clients=7, seed=3)
    sizes = np.bincount(data.groups)
    assert len(sizes) == 7 and sizes.min() >= 40
    total = len(data.train.y) + len(data.test.y)
    assert 0.19 < len(data.test.y) / total < 0.2 + 1e-9
    assert data.train.x.shape[1:] == (60,) and data.train.x.dtype == np.float32
    assert data.classes == 10 and data.valid is None
    np.testing.assert_array_equal(
        data.train.x, load("synthetic", clients=7, seed=3).train.x
    )
    assert not np.array_equal(data.groups, load("synthetic", clients=7).groups)


def test_synthetic_follows_its_description():
    """Sigma_jj = j^-1.2 or the meaning of alpha, beta and iid would be lost."""
    data = load("synthetic", clients=40, iid=True, seed=1)
    variance = data.train.x.var(axis=0)
    expected = np.arange(1, 61) ** -1.2
    np.testing.assert_allclose(variance, expected, rtol=0.15)
    assert np.abs(data.train.x.mean(axis=0)).max() < 0.05

    def spread(**options):
        """Standard deviation over clients of the mean of a client's inputs."""
        data = load("synthetic", clients=200, seed=1, **options)
        means = [data.train.x[data.groups == k].mean() for k in range(200)]
        return np.std(means)

    assert 4 < spread(beta=5.0) < 6  # B_k ~ N(0, beta) with beta a deviation
    assert spread(beta=0.0) < 0.3


def test_synthetic_refuses_nonsense():
    """A negative spread or no client would fail late and without a name."""
    with pytest.raises(ValueError, match=r"alpha must lie in \[0, inf\): got -1"):
        load("synthetic", alpha=-1.0)
    with pytest.raises(ValueError, match="clients must be at least 1: got 0"):
        load("synthetic", clients=0)


def test_own_arrays():
    """Own byte images would lose their channel axis, statistics or groups."""
    data = arrays(X[:4], Y[:4], X[4:], Y[4:], groups=np.array([5, 5, 7, 7]))
    assert data.train.x.shape == (4, 4, 4, 1) and data.classes == 3
    np.testing.assert_allclose(data.mean, [X[:4].mean()], rtol=1e-6)
    np.testing.assert_allclose(data.std, [X[:4].std()], rtol=1e-6)
    assert data.groups.tolist() == [5, 5, 7, 7]


def test_own_floats_are_taken_as_they_are():
    """Prepared features would be normalised a second time."""
    data = arrays(X / 7.0, Y, X / 7.0, Y, classes=5)
    assert data.train.x.shape == (6, 4, 4) and data.train.x.dtype == np.float64
    assert (data.mean, data.std, data.classes) == (0, 1, 5)


def test_statistics_per_channel_and_constant_channels():
    """Channels would share statistics, or a constant one would divide by zero."""
    x = np.random.default_rng(0).integers(0, 256, (2100, 3, 3, 3), dtype=np.uint8)
    x[..., 1] = 9
    data = arrays(x, np.arange(2100) % 2, x, np.arange(2100) % 2)
    np.testing.assert_allclose(data.mean, x.mean(axis=(0, 1, 2)), rtol=1e-5)
    expected = x.std(axis=(0, 1, 2))
    expected[1] = 1
    np.testing.assert_allclose(data.std, expected, rtol=1e-5)


F = X.astype(np.float32)
NAN = np.where(np.arange(6)[:, None, None] == 3, np.nan, F)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": Y / 1.0}, "y_train must hold integer labels: got dtype float64"),
        ({"y_train": Y - 1}, r"y_train must lie in \[0, 2\]: example 0 has label -1"),
        ({"y_test": Y + 1}, r"y_test must lie in \[0, 2\]: example 2 has label 3"),
        ({"y_train": Y[:5]}, r"y_train must have shape \[6\].*got \(5,\)"),
        ({"y_train": Y[:, None]}, r"y_train must have shape \[6\].*got \(6, 1\)"),
        ({"x_train": NAN}, "x_train must be finite: example 3 has a NaN"),
        ({"x_test": F[:, :3]}, r"x_test must have .*\(4, 4\) float32: got \(3, 4\)"),
        ({"x_test": F[:0], "y_test": Y[:0]}, "x_test must not be empty"),
        ({"x_train": F.astype(str)}, "x_train must hold integers or floats"),
        ({"x_train": F[:, 0, 0]}, r"x_train must have shape \[n, ...\]: got \(6,\)"),
        ({"classes": 1}, "classes must be at least 2: got 1"),
        ({"std": 1.0}, "mean and std must be given together"),
        ({"mean": 0.0, "std": 0.0}, "std must be positive: got 0"),
        ({"mean": [0.0, 1.0], "std": 1.0}, r"mean must be .*\(4,\).*got \(2,\)"),
        ({"x_valid": F}, "x_valid and y_valid must be given together"),
        ({"groups": Y[:5]}, r"groups must hold one integer.*got shape \(5,\)"),
    ],
)
def test_bad_arrays_are_refused(change, message):
    """Bad data would reach training, or the error would not name the argument."""
    good = {"x_train": F, "y_train": Y, "x_test": F, "y_test": Y, "classes": 3}
    arrays(**good)
    with pytest.raises(ValueError, match=message):
        arrays(**good | change)


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
    with pytest.raises(ValueError, match="digits, synthetic, mnist.*got 'minst'"):
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
        assert source.description and source.reference
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
