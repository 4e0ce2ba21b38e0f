"""Data sets that need no file."""

import numpy as np
import pytest

from fedjax_mos.data.sources import load


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
