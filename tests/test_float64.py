"""Checks that need float64, in their own process: it cannot be switched on later."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "path",
    ["tests/contracts/test_gradients.py", "tests/algorithms"],
)
def test_in_float64(path, pytestconfig):
    """Gradients against differences, and algorithms against NumPy to 1e-9."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            path,
        ],
        cwd=pytestconfig.rootpath,
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout
