"""How far do gradients by schedules reach: horizons, seeds, growth of perturbations?

    python benchmarks/schedule_landscape.py [--tiny]

In the settings of schedules.py, for several numbers of rounds: a halving finds cosine
schedules of FedAvgM's step sizes and momentum with five seeds; from there one goes down
the gradient by all values (three per round, rates in their logarithm, momenta in their
log-odds), to where the largest change is so many units. Measured on the seeds of the
gradient, and on 20 fresh ones:

* growth: how often larger a small change of the start is after the last round;
* agreement: the cosine between the gradients by the five seeds and by five fresh ones;
* gain: the fall of the held-out loss in per cent.

Writes results/schedule_landscape.md and .png. Every point is kept below
benchmarks/work/schedule_landscape: an ended study goes on there.
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from schedules import (
    BOXES,
    FIRST_FRESH,
    FRESH,
    GOAL,
    SEEDS,
    SETTINGS,
    families,
    first_images,
)

import fedjax_mos as fm

HERE = Path(__file__).parent
WORK, RESULTS = HERE / "work" / "schedule_landscape", HERE / "results"
HORIZONS, POINTS = (5, 10, 20, 50), 60
UNITS = (0.03, 0.1, 0.3, 1.0)  # the largest change of a value along the line
Values = dict[str, np.ndarray]


def moved(values: Values, steps: Values) -> Values:
    """Rates times e^step; momenta whose log-odds moved by the step."""
    odds = {n: v / (1 - v) for n, v in values.items() if n == "server_momentum"}
    new = {n: np.exp(steps[n]) * odds.get(n, v) for n, v in values.items()}
    return {n: v / (1 + v) if n in odds else v for n, v in new.items()}


def slopes(base: fm.Experiment, values: Values, seed: int) -> tuple[np.ndarray, float]:
    """The gradient by log rates and log-odds, flat, and the growth."""
    at = dataclasses.replace(base, seed=seed)
    schedules = {n: fm.Schedule(v) for n, v in values.items()}
    found = fm.hypergrad(at, schedules, GOAL, seeds=SEEDS, mode="reverse")
    inner = {n: v * (1 - v) if n == "server_momentum" else v for n, v in values.items()}
    flat = [
        np.asarray(jax.tree.leaves(found.gradient[n])[0]) * inner[n] for n in values
    ]
    return np.concatenate(flat), float(found.growth[-1])


def loss(base: fm.Experiment, values: Values, seed: int, seeds: int) -> float:
    """The mean held-out loss after the last round."""
    options = base.options | {n: fm.Schedule(v) for n, v in values.items()}
    one = dataclasses.replace(base, seed=seed, options=options)
    frame = one.run(seeds, progress=False).frame
    return float(frame.groupby("seed")[GOAL].last().mean())


def line(name: str, fields: dict, rounds: int, tiny: bool) -> list[dict]:
    """The loss along the gradient from the best cosines of a setting."""
    base = fm.Experiment(
        **first_images(fields | {"rounds": rounds}),
        algorithm="fedavgm",
        held_out=0.1,
        eval_every=rounds,
    )
    label = "".join(c if c.isalnum() else "_" for c in name)
    points = families(rounds, 4 if tiny else POINTS, 1)["cosine, all three"]
    out = WORK / f"{label}_{rounds}"
    begun = fm.search(base, points, seeds=SEEDS, metric=GOAL, out=out, progress=False)
    values = {n: np.asarray(begun.winner.options[n].values, np.float64) for n in BOXES}
    own, growth = slopes(base, values, base.seed)
    other, _ = slopes(base, values, FIRST_FRESH)
    agreement = own @ other / np.linalg.norm(own) / np.linalg.norm(other)
    down = -own / np.abs(own).max()
    parts = dict(zip(values, np.split(down, len(values)), strict=True))
    rows = []
    for unit in (0.0, *UNITS):
        there = moved(values, {n: unit * part for n, part in parts.items()})
        rows.append(
            {
                "setting": name,
                "rounds": rounds,
                "growth": growth,
                "agreement": agreement,
                "units": unit,
                "own": loss(base, there, base.seed, SEEDS),
                "fresh": loss(base, there, FIRST_FRESH, 2 if tiny else FRESH),
            }
        )
    return rows


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """A row per setting and horizon: the best step on either kind of seeds."""
    rows = []
    for (name, rounds), part in frame.groupby(["setting", "rounds"], sort=False):
        start, steps = part.iloc[0], part.set_index("units")
        gains = 100 * (1 - steps[["own", "fresh"]] / start[["own", "fresh"]])
        best = gains["own"].astype(float).idxmax()
        rows.append(
            {
                "setting": name,
                "rounds": rounds,
                "growth": start["growth"],
                "agreement": start["agreement"],
                "best step": best,
                "gain, own seeds, %": gains["own"][best],
                "gain, fresh seeds, %": gains["fresh"][best],
            }
        )
    return pd.DataFrame(rows)


def picture(frame: pd.DataFrame) -> plt.Figure:
    """Loss along the gradient: own seeds solid, fresh ones dashed."""
    names = list(frame["setting"].unique())
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.2))
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        here = frame[frame["setting"] == name]
        for color, (rounds, part) in enumerate(here.groupby("rounds")):
            for kind, style in (("own", "-"), ("fresh", "--")):
                relative = part[kind] / part[kind].iloc[0]
                label = f"{rounds} rounds" if kind == "own" else None
                axis.plot(part["units"], relative, f"C{color}{style}.", label=label)
        axis.set_xscale("symlog", linthresh=UNITS[0])
        axis.set(title=name, xlabel="largest change of a value", ylim=(0.7, 1.3))
    np.atleast_1d(axes)[0].set_ylabel("held-out loss, start = 1")
    np.atleast_1d(axes)[0].legend(title="own seeds (fresh: dashed)", fontsize=8)
    figure.tight_layout()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="does the script run?")
    told = parser.parse_args()
    fm.use_all_cores()
    settings = {"tiny": {"dataset": "digits", "model": "logistic"}}
    rows = []
    for name, fields in (settings if told.tiny else SETTINGS).items():
        for rounds in (2, 3) if told.tiny else HORIZONS:
            rows += line(name, fields, rounds, told.tiny)
            print(table(pd.DataFrame(rows)).to_string(), flush=True)
    frame = pd.DataFrame(rows)
    figure = picture(frame)
    if told.tiny:
        return
    figure.savefig(RESULTS / "schedule_landscape.png", dpi=150)
    text = table(frame).to_string(index=False, float_format="{:.3g}".format)
    (RESULTS / "schedule_landscape.md").write_text(
        "# How far gradients by schedules reach\n\n"
        f"FedAvgM, the best of {POINTS} cosine schedules, one step down the gradient "
        f"of {SEEDS} seeds by all values, the best of {', '.join(map(str, UNITS))} "
        f"units for these seeds; the gain of {FRESH} fresh seeds at the same step. "
        f"jax {jax.__version__}, {jax.default_backend()}. Repeat with `python "
        f"benchmarks/schedule_landscape.py`.\n\n```\n{text}\n```\n\n"
        "![Held-out loss along the gradient](schedule_landscape.png)\n"
    )


if __name__ == "__main__":
    main()
