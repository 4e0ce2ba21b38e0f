"""Tests see two CPU devices; compile time dominates, so XLA optimises little."""

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_disable_most_optimizations", True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests that share compiled programs stay on one worker of pytest-xdist.

    A module shares its fixtures; the contract tests share by algorithm.
    """
    for item in items:
        group = item.nodeid.split("::")[0]
        if "contracts" in group and hasattr(item, "callspec"):
            group = f"{group}:{item.callspec.params.get('name')}"
        item.add_marker(pytest.mark.xdist_group(group))
