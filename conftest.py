"""Tests see two CPU devices; compile time dominates, so XLA optimises little."""

import itertools

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_enable_compilation_cache", False)

_tests = itertools.count(1)
_LONG = ("test_float64", "test_notebooks")


def pytest_collection_modifyitems(items):
    """Long tests first, so that no worker waits for another at the end."""
    items.sort(key=lambda item: not any(name in item.nodeid for name in _LONG))


@pytest.fixture(autouse=True)
def _few_programs():
    """Drop compiled programs now and then.

    Each one holds memory maps, of which a process may have about 65,000; beyond that
    the compiler crashes.
    """
    yield
    if next(_tests) % 40 == 0:
        jax.clear_caches()
