"""The default numbers on `digits`: an equal-budget grid for every method.

    python benchmarks/digits_grid.py

Every method gets the same number of configurations (64), seeds and rounds, in the
default setting with uniform sampling. A configuration's score is its validation
accuracy averaged over all rounds and seeds: fast learners win, and test data play no
part. The best ones are the `tuned` numbers of fedjax_mos/lab/catalog. Writes
benchmarks/results/digits_grid.csv (every configuration) and digits_grid.md (the best).
"""

import itertools
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import fedjax_mos as fm

SEEDS, ROUNDS, PIECE = 3, 100, 16
RESULTS = Path(__file__).parent / "results"
# Centred on the best of a first, coarser grid of the same size for each method.
MOS = {
    "lr": [0.1, 0.2, 0.3, 0.4],
    "storm": [0.2, 0.4, 0.7, 0.9],
    "prox": [0.001, 0.05],
    "server_momentum": [0.5, 0.7],
}
GRIDS = {
    "fedavg": {
        "lr": [0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6],
        "server_lr": [0.7, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0],
    },
    "fedmos": MOS,
    "fedmos_release": MOS,
}


def scores(algorithm: str, configurations: pd.DataFrame) -> pd.DataFrame:
    """Validation and test accuracy of every configuration, mean over seeds."""
    made = fm.Experiment(algorithm=algorithm, sampler="ucs", rounds=ROUNDS).build()
    keys = jax.vmap(jax.random.key)(jnp.arange(SEEDS))

    def one(hp, key):
        state, k_run = made.start(key, {"algorithm": hp})
        stores = {name: made.stores[name] for name in ("valid", "test")}
        options = {"evaluate": made.evaluate, "stores": stores}
        _, trace = fm.rollout(made.sim, made.data, state, k_run, ROUNDS, **options)
        return trace.evaluated

    many = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))
    pieces = []
    for start in range(0, len(configurations), PIECE):
        piece = configurations.iloc[start : start + PIECE]
        hp = {name: jnp.asarray(piece[name], jnp.float32) for name in piece}
        pieces.append(jax.device_get(many(hp, keys)))  # leaves [piece, seeds, rounds]
    valid, test = (
        np.nan_to_num(np.concatenate([p[f"{name}_accuracy"] for p in pieces]))
        for name in ("valid", "test")
    )
    return configurations.assign(
        valid_mean=valid.mean((1, 2)),
        valid_final=valid[:, :, -1].mean(1),
        test_final=test[:, :, -1].mean(1),
        test_final_std=test[:, :, -1].std(1),
    )


def main() -> None:
    RESULTS.mkdir(exist_ok=True)
    tables = []
    for algorithm, grid in GRIDS.items():
        cells = pd.DataFrame(itertools.product(*grid.values()), columns=list(grid))
        assert len(cells) == 64, "the same budget for everybody"
        start = time.perf_counter()
        table = scores(algorithm, cells)
        print(f"{algorithm}: {time.perf_counter() - start:.1f} s", flush=True)
        table.insert(0, "algorithm", algorithm)
        tables.append(table.sort_values("valid_mean", ascending=False))
    everything = pd.concat(tables).round(4)
    everything.to_csv(RESULTS / "digits_grid.csv", index=False)
    best = everything.groupby("algorithm", sort=False).head(3)
    text = best.to_string(index=False, na_rep="")
    print(text)
    (RESULTS / "digits_grid.md").write_text(
        "# Best three configurations of each method on `digits`\n\n"
        f"64 configurations x {SEEDS} seeds x {ROUNDS} rounds each, uniform sampling; "
        f"jax {jax.__version__}, {jax.default_backend()}. "
        "Repeat with `python benchmarks/digits_grid.py`.\n\n"
        f"```\n{text}\n```\n"
    )


if __name__ == "__main__":
    main()
