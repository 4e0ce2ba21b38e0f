"""What the FedMoS release calls uniform."""

import numpy as np

import fedjax_mos as fm
from tests.samplers.papers import mnist_sizes
from tests.samplers.population import KEYS, draw, near


def successive(p, cohort, draws, seed):
    """The FedMoS release: draw by p without replacement, normalise N p / M."""
    rng, w = np.random.default_rng(seed), np.zeros((draws, len(p)))
    for row in w:
        chosen = rng.choice(len(p), cohort, replace=False, p=p)
        row[chosen] = p[chosen] / p[chosen].sum()
    return w


def test_uniform_release_is_biased_as_the_release():
    """E w_i / p_i against NumPy (5 s.e.); unbiased would be another method."""
    sizes, cohort = np.array([1, 2, 3, 14, 4, 6]), 3
    p = sizes / sizes.sum()
    drawn, ours = draw(fm.samplers.uniform_release, cohort, sizes)
    theirs = successive(p, cohort, KEYS // 2, seed=1)
    error = np.sqrt(ours.var(axis=0) / KEYS + theirs.var(axis=0) / (KEYS // 2))
    near(ours.mean(axis=0) / p, theirs.mean(axis=0) / p, error / p)
    np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-5)
    assert drawn.mask.all()
    ratio = ours.mean(axis=0) / p
    assert ratio[0] < 0.5 and ratio[3] > 1.15


def test_uniform_release_on_the_mnist_partition():
    """ALGORITHMS 2.6: .34 for the smallest decile, 1.39 for the largest (.06)."""
    sizes = mnist_sizes()
    p = sizes / sizes.sum()
    _, w = draw(fm.samplers.uniform_release, 25, sizes, keys=4000)
    ratio = w.mean(axis=0) / p
    order = np.argsort(sizes)
    deciles = ratio[order[:50]].mean(), ratio[order[-50:]].mean()
    np.testing.assert_allclose(deciles, (0.34, 1.39), atol=0.06)
