"""The README's programs run as they are printed."""

import re
from functools import cache

import jax
import pytest

import fedjax_mos as fm
from tests import problem


@pytest.fixture
def blocks(pytestconfig):
    text = (pytestconfig.rootpath / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@cache
def load(block):
    names = {}
    exec(compile(block, "README.md", "exec"), names)
    return names


def test_every_block_is_short(blocks):
    """The interface is only as good as its shortest example."""
    assert len(blocks) == 4
    for block in blocks:
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 20


def test_the_notebook_example(blocks):
    """Experiment in three lines."""
    short = blocks[0].replace('options={"lr": 0.2}', 'options={"lr": 0.2}, rounds=2')
    short = short.replace(".run(seeds=5)", ".run(seeds=2, progress=False)")
    assert short.count("rounds=2") == 1 and short.count("seeds=2") == 1
    assert len(load(short)["result"].history) == 4


def test_own_arrays(blocks):
    """Own arrays, loss and parameters learn something."""
    history = load(blocks[1])["history"]
    assert history["local_loss"].iloc[-1] < 0.7 * history["local_loss"].iloc[0]


def test_own_algorithm(blocks):
    """An algorithm written by a reader runs in the engine."""
    factory = load(blocks[2])["signed_average"]
    loss = fm.cross_entropy(problem.softmax_net)
    sim = fm.simulation(
        fm.spec(factory, lr=0.1, server_lr=0.01),
        fm.local_work(loss, fm.with_replacement(2, 3)),
        fm.uniform(3),
    )
    data, key = problem.data(), jax.random.key(0)
    before = problem.softmax_params()
    state, _ = sim.step(data, sim.init(before, data, key), key)
    moved = abs(state.server.params["w"] - before["w"])
    assert moved.max() == pytest.approx(0.01, rel=1e-4)


def test_sweep(blocks):
    """The sweep's example names an argument or a helper that is gone."""
    short = blocks[3].replace("rounds=100", "rounds=1, model='logistic'")
    short = short.replace("seeds=5", "seeds=1, progress=False")
    assert "logistic" in short and "seeds=1" in short
    assert len(load(short)["cube"].frame) == 6
