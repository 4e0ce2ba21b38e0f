"""Runs methods on eight devices and as one program, and prints how far they differ.

In double precision and on data without equal numbers, so that a compressor chooses the
same entries; a process of its own, since the other tests see two devices.
"""

import json
import sys
from functools import cache

import jax
import numpy as np

import fedjax_mos as fm
from fedjax_mos.backends.placing import whole_rows

EVEN, UNEVEN = {"clients": 24, "cohort": 8}, {"clients": 21, "cohort": 5}
ROUNDS, SEEDS = 4, 3


@cache
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 12))
    y = (x @ rng.normal(size=(12, 4))).argmax(1)
    return fm.arrays(x, y, x[:50], y[:50])


def ran(method, backend, sizes, seed=0, seeds=None):
    """Numbers of all rounds and of the last state, of so many seeds from one on."""
    experiment = fm.Experiment(
        algorithm=method,
        dataset=data(),
        model="mlp",
        rounds=ROUNDS,
        backend=backend,
        seed=seed,
        partition="iid",
        epochs=1,
        batch_size=8,
        **sizes,
    )
    result = experiment.run(seeds, progress=False)
    frame = result.frame.drop(columns="seconds").astype(float)
    if seeds is not None:
        frame = frame.drop(columns="seed")
    shape = (ROUNDS, -1) if seeds is None else (seeds, ROUNDS, -1)
    rounds = frame.to_numpy().reshape(shape)
    state = whole_rows(result.state, sizes["clients"], seeds is not None)
    leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(state)]
    return [rounds, *leaves]


def apart(one, other):
    """The largest difference between numbers, over their size where that is above 1."""
    assert [a.shape for a in one] == [b.shape for b in other]
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        assert (np.isnan(a) == np.isnan(b)).all()
        far = np.nan_to_num(abs(a - b) / np.maximum(abs(b), 1))
        worst = max(worst, float(far.max(initial=0)))
    return worst


def main(methods):
    cut = fm.backends.sharded(split_data=True)
    lanes = fm.backends.meshed(2, 4, split_data=True)
    found = {}
    for method in methods:
        plain = [ran(method, "vmapped", UNEVEN, seed) for seed in range(SEEDS)]
        both = [np.stack(leaves) for leaves in zip(*plain, strict=True)]
        side_by_side = ran(method, lanes, UNEVEN, 0, SEEDS)
        found[method] = {
            "one run": apart(ran(method, cut, UNEVEN), plain[0]),
            "lanes": apart(side_by_side, both),
        }
    even = [ran(methods[-1], backend, EVEN) for backend in ("sharded", "vmapped")]
    found[methods[-1]]["divided evenly"] = apart(*even)
    print(json.dumps(found))


if __name__ == "__main__":  # pytest imports this file, and has other devices
    jax.config.update("jax_num_cpu_devices", 8)
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_enable_x64", True)
    main(sys.argv[1:])
