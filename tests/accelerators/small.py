"""Small experiments that a device must do as a CPU does: `python small.py NAME OUT`."""

import sys

import jax
import numpy as np

import fedjax_mos as fm

NAMES = ("logistic", "mlp", "cnn", "stateful", "compressed", "lanes")


def experiment(name):
    """Products are exact, so that only the order of sums differs."""
    rng = np.random.default_rng(0)
    x = rng.random((600, 28, 28, 1), np.float32)
    y = (x[:, :14].mean((1, 2, 3)) > x[:, 14:].mean((1, 2, 3))).astype(np.int32)
    model = {"logistic": fm.models.logistic(2), "cnn": fm.models.cnn(2)}
    algorithm = {"stateful": "scaffold", "compressed": "fedcams"}
    return fm.Experiment(
        dataset=fm.arrays(x, y, x[:100], y[:100]),
        partition="iid",
        model=model.get(name, fm.models.mlp(2, hidden=(32,))),
        algorithm=algorithm.get(name, "fedmos"),
        sampler="ucs",
        clients=20,
        cohort=5,
        rounds=12,
        steps=3,
        precision="highest",
    )


def run(name):
    """The result; several seeds as one program for the lanes."""
    seeds = 4 if name == "lanes" else None
    return experiment(name).run(seeds, progress=False)


if __name__ == "__main__":
    leaves = jax.tree.leaves(run(sys.argv[1]).params)
    np.savez(sys.argv[2], *map(np.asarray, leaves))
