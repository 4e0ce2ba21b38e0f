"""For the owner of an accelerator: `pytest -m accelerator -n 0` (docs/accelerators.md).

Everything here is skipped on a CPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from fedjax_mos.lab.sweeps.lanes import fitting, within
from fedjax_mos.machine import device_memory
from fedjax_mos.tree import bytes_of
from tests.accelerators import small

pytestmark = pytest.mark.accelerator


@pytest.fixture(autouse=True)
def _on_a_device():
    """As users run it: with all optimisations, on what is not a CPU."""
    if jax.default_backend() == "cpu":
        pytest.skip("there is no accelerator here")
    before = jax.config.jax_disable_most_optimizations
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.parametrize("name", small.NAMES)
def test_results_are_those_of_a_cpu(name, tmp_path):
    """Another form of a convolution, a loss or a loop that computes something else."""
    root, out = Path(__file__).parents[2], tmp_path / "cpu.npz"
    subprocess.run(
        [sys.executable, "-m", "tests.accelerators.small", name, str(out)],
        env=os.environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)},
        cwd=root,
        check=True,
    )
    expected = list(np.load(out).values())
    found = jax.tree.leaves(small.run(name).params)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", small.NAMES[:-1])
def test_a_state_is_held_once(name):
    """A block that copies the state instead of working in its memory."""
    made = small.experiment(name).build()
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    block, args = made.block(state, key)
    needs = block.lower(*args).compile().memory_analysis()
    assert needs.alias_size_in_bytes >= bytes_of((state.server.params, state.clients))


def test_as_many_lanes_run_as_are_said_to_fit():
    """A width of a sweep that the device has no memory for."""
    memory = device_memory()
    if memory is None:
        pytest.skip("this device does not tell its memory")
    one = small.experiment("cnn")
    count = min(fitting(one), 256)
    assert count >= 1
    made = one.build(lanes=count)
    state, key = made.begin(np.arange(count, dtype=np.int32))
    made.run(state, key, 10, progress=False)
    peak = jax.local_devices()[0].memory_stats()["peak_bytes_in_use"]
    assert peak <= memory
    shapes, key = jax.eval_shape(made.start, jax.random.key(0))
    block, args = made.block(shapes, key)
    needs = block.lower(*args).compile().memory_analysis()
    assert within(peak, needs, bytes_of(shapes)) <= 2 * count  # no wild guess either
