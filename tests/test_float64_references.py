"""Every algorithm against its NumPy reference, to 1e-9."""

import pytest

from tests import float64

pytestmark = pytest.mark.thorough


def test_references_in_float64(pytestconfig):
    """A small systematic error hides below float32's tolerance."""
    float64.run(pytestconfig.rootpath, "tests/algorithms")
