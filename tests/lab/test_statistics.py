"""Spreads and paired tests against scipy."""

import numpy as np
import pytest
from scipy import stats

from fedjax_mos.lab.statistics import SPREADS, check_spread, paired, spread

VALUES = {
    "two": [0.2, 0.6],
    "three": [1.0, 4.0, -2.5],
    "five": [0.91, 0.93, 0.9, 0.95, 0.92],
    "large": [1e6, 1e6 + 1, 1e6 + 3, 1e6 + 2],
}
PAIRS = {
    "two": ([0.2, 0.6], [0.1, 0.3]),
    "five": ([0.91, 0.93, 0.9, 0.95, 0.92], [0.9, 0.94, 0.85, 0.93, 0.9]),
    "worse": ([1.0, 2.0, 3.0], [2.0, 2.5, 4.5]),
    "even": ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 4.0, 3.0]),
}


@pytest.mark.parametrize("name", VALUES)
def test_spreads_are_those_of_scipy(name):
    """The sample's deviation, its standard error and half of Student's interval."""
    values = np.array(VALUES[name])
    n, mean, sem = len(values), values.mean(), stats.sem(values)
    np.testing.assert_allclose(spread(values), stats.tstd(values), atol=1e-12)
    np.testing.assert_allclose(spread(values, "sem"), sem, atol=1e-12)
    low, high = stats.t.interval(0.95, n - 1, loc=mean, scale=sem)
    half = spread(values, "ci95")
    np.testing.assert_allclose([mean - half, mean + half], [low, high])


@pytest.mark.parametrize("kind", SPREADS)
def test_of_one_value_nothing_is_known(kind):
    """One seed has no spread: NaN, not zero."""
    assert np.isnan(spread([0.7], kind)) and np.isnan(spread([], kind))
    assert spread([0.5, 0.5], kind) == 0


def test_an_unknown_spread_is_refused():
    """The message lists what there is."""
    with pytest.raises(ValueError, match="one of std, sem, ci95: got 'iqr'"):
        check_spread("iqr")
    with pytest.raises(ValueError, match="got 'iqr'"):
        spread([1.0, 2.0], "iqr")


@pytest.mark.parametrize("name", PAIRS)
def test_paired_is_the_test_of_scipy(name):
    """The difference, its interval and the p-value are ttest_rel's."""
    ours, theirs = PAIRS[name]
    found, expected = paired(ours, theirs), stats.ttest_rel(ours, theirs)
    assert found.difference == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.seeds == len(ours)
    back = paired(theirs, ours)
    assert back.difference == pytest.approx(-found.difference)
    assert back.p_value == pytest.approx(found.p_value)


def test_a_pair_of_one_seed_has_a_difference_only():
    """No interval and no p-value of a single difference."""
    found = paired([0.9], [0.7])
    assert found.difference == pytest.approx(0.2) and found.seeds == 1
    assert np.isnan([found.low, found.high, found.p_value]).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("away", [0.0, 0.1, -0.3])
def test_equal_differences_have_no_p_value(away, dtype):
    """Rounding of equal differences is not taken for a spread of them."""
    theirs = np.array([0.1, 0.2, 0.7, 0.9])
    ours = (theirs + away).astype(dtype)
    found = paired(ours, theirs.astype(dtype))
    assert found.difference == pytest.approx(away, abs=1e-6)
    assert np.isnan(found.p_value)
    assert (found.low, found.high) == pytest.approx((away, away), abs=1e-6)
