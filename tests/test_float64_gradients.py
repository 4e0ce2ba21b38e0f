"""Hypergradients against central differences, in float64."""

import pytest

from tests import float64

pytestmark = pytest.mark.thorough


def test_gradients_in_float64(pytestconfig):
    """Else tuning by gradient would go astray."""
    float64.run(pytestconfig.rootpath, "tests/contracts/test_gradients.py")
