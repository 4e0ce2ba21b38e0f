"""The NLA/AA paper's threshold, and its advice for the constant."""

import numpy as np
import pytest

import fedjax_mos as fm


@pytest.mark.parametrize(
    ("alpha", "kappa"), [(1.0, 4.29e-4), (0.1, 1.357e-3), (0.01, 4.29e-3)]
)
def test_the_advice_in_the_papers_setting(alpha, kappa):
    """m = 100 clients, 50 of them per round: sqrt(alpha log 100) / 100 / (50 alpha)."""
    constant = fm.channels.advised_constant(100, alpha)
    np.testing.assert_allclose(constant, np.sqrt(alpha * np.log(100)) / 100)
    found = fm.channels.threshold(constant, 50, alpha)
    np.testing.assert_allclose(found, kappa, rtol=1e-3)


def test_remark_4_1_is_a_threshold_of_one():
    """C = alpha m: the setting in which the paper compares its two theorems."""
    assert fm.channels.threshold(0.3 * 100, 100, 0.3) == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fm.channels.threshold(1.0, 5, 0.0), "alpha must be positive: got 0"),
        (lambda: fm.channels.threshold(1.0, 0), "participants must be at least 1"),
        (lambda: fm.channels.advised_constant(0), "clients must be at least 1: got 0"),
        (lambda: fm.channels.advised_constant(9, -1.0), "alpha must be positive"),
    ],
)
def test_what_has_no_threshold_is_refused(call, message):
    """Division by nobody."""
    with pytest.raises(ValueError, match=message):
        call()
