"""Runs test files in a process with float64, which cannot be switched on later."""

import os
import subprocess
import sys


def run(root, *paths):
    """Fail with pytest's own report unless all tests in `paths` pass in float64."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    done = subprocess.run(
        [*command, *paths],
        cwd=root,
        env=os.environ | {"JAX_ENABLE_X64": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout
