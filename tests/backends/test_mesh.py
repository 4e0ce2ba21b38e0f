"""Rows, data and lanes that are cut over devices: what moves, and the same results."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm

METHODS = ("fedavg", "fedmos", "scaffold", "fedcams", "fedbnlaca")
MOVES = "all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute"
PROGRAM = Path(__file__).with_name("eight_devices.py")


@pytest.mark.thorough
def test_eight_devices_compute_what_one_does():
    """A row, an example or a lane that is lost, or taken from another client."""
    done = subprocess.run(
        [sys.executable, "-W", "error", PROGRAM, *METHODS],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(METHODS)
    for method, differences in found.items():
        assert max(differences.values()) < 1e-12, (method, differences)


def table(rows):
    """Rows of several kinds, among them zeros with a sign and no numbers."""
    numbers = np.linspace(-1, 1, 3 * rows, dtype=np.float32).reshape(rows, 3)
    numbers[0], numbers[1] = -0.0, np.nan
    keys = jax.random.split(jax.random.key(0), rows)
    return {
        "floats": jnp.asarray(numbers),
        "half": jnp.asarray(numbers, jnp.bfloat16),
        "flags": jnp.arange(rows) % 3 == 0,
        "counts": -jnp.arange(rows),
        "keys": keys,
    }


def bits(tree):
    """All leaves as bytes."""
    plain = [
        jax.random.key_data(leaf)
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        else leaf
        for leaf in jax.tree.leaves(tree)
    ]
    return [np.asarray(leaf).tobytes() for leaf in plain]


@pytest.mark.parametrize("rows", [6, 7])  # the devices are two
@pytest.mark.parametrize("slots", [4, 3])
def test_cut_rows_are_the_same_to_the_bit(rows, slots):
    """A minus sign lost in a sum, or a row of one device written by another."""
    cut, plain = fm.backends.sharded().rows, fm.backends.vmapped().rows
    have, ids = table(rows), jnp.array([5, 1, 0, 2])[:slots]
    taken = jax.jit(cut.take)(have, ids)
    assert bits(taken) == bits(plain.take(have, ids))
    behind = ids.at[-1].set(rows)  # a dead slot
    written = jax.jit(cut.put)(have, behind, plain.take(have, ids[::-1]))
    assert bits(written) == bits(plain.put(have, behind, plain.take(have, ids[::-1])))


def test_cut_rows_have_derivatives():
    """Sums of bits, whose derivative would be zero."""
    cut, ids = fm.backends.sharded().rows, jnp.array([5, 1])
    numbers = jnp.arange(6.0)

    def squares(rows, numbers):
        taken = rows.take(numbers, ids)
        return (rows.put(numbers, ids, 3 * taken) ** 2).sum() + (taken**3).sum()

    expected = jax.grad(lambda n: squares(fm.backends.vmapped().rows, n))(numbers)
    np.testing.assert_allclose(jax.grad(lambda n: squares(cut, n))(numbers), expected)


def test_no_row_but_the_cohorts_moves():
    """All clients' rows gathered on every device, which a pod could not hold."""
    clients, cohort, size = 64, 4, 50
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(128, size)).astype(np.float32), np.arange(128) % 3
    data = fm.federate(x, y, fm.partitions.iid(y, clients, seed=0))

    def net(params, x, key):
        return x @ params

    backend = fm.backends.sharded(split_data=True)
    sim = fm.simulation(
        fm.spec(fm.algorithms.scaffold, lr=0.1, server_lr=1.0),
        fm.local_work(fm.losses.mean_loss(net), fm.plans.with_replacement(2, 3)),
        fm.spec(fm.samplers.uniform),
        cohort=cohort,
        backend=backend,
    )
    evaluate = fm.evaluator(fm.losses.measures(net), 8, backend)
    key, params = jax.random.key(0), jnp.zeros((size, 3))
    data, (state, key) = backend.place(data, (sim.init(params, data, key), key), False)
    for leaf in (*jax.tree.leaves(state.clients), data.x, data.y):
        assert leaf.addressable_shards[0].data.shape[0] == leaf.shape[0] // 2

    @jax.jit
    def block(state, data, key):
        state = sim.step(data, state, key)[0]
        return state, evaluate(state, {"all": data})

    text = block.lower(state, data, key).compile().as_text()
    moved = [
        int(np.prod([int(n) for n in shape.split(",") if n]))
        for line in re.findall(rf" = (.*?) (?:{MOVES})\(", text)
        for shape in re.findall(r"\w+\[([\d,]*)\]", line)
    ]
    assert moved  # rows of the cohort, its examples, sums
    assert max(moved) <= cohort * max(size * 3, data.largest * size)
