"""Fixtures of the lab's tests."""

import pytest

from fedjax_mos.engine import run as runner


@pytest.fixture
def programs():
    """How many programs of rounds have been compiled since."""
    before = runner._compiled._cache_size()
    return lambda: runner._compiled._cache_size() - before
