"""Hypergradients against central differences, in float64."""

from tests import float64


def test_gradients_in_float64(pytestconfig):
    """Else tuning by gradient would go astray."""
    float64.run(pytestconfig.rootpath, "tests/contracts/test_gradients.py")
