"""The lanes of a sweep against single runs, in float64."""

import pytest

from tests import float64

pytestmark = pytest.mark.thorough


def test_lanes_in_float64(pytestconfig):
    """A lane that is nearly the run it stands for."""
    float64.run(pytestconfig.rootpath, "tests/lab/sweeps/test_lanes.py")
