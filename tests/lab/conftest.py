"""Fixtures of the lab's tests."""

import pytest

from tests import programs as counted


@pytest.fixture
def programs():
    """How many programs of rounds have been compiled since."""
    counted.forget()
    return counted.compiled
