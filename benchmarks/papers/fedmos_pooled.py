"""How soon could anybody be there? Table I's examples of a round, without clients.

    python benchmarks/papers/fedmos_pooled.py [mnist] [cifar10] [--tiny] [--data-dir D]

A round of the card fedmos-table1 (25 clients, 5 steps, batches of 10) reads 5 x 250
examples. Here one machine has all clients' examples and takes steps of 250 drawn from
all of them: no drift, no selection, no second momentum, only heavy ball (0.9) or Adam
with the best step size of a grid, chosen by what it is asked for. One seed; dropout as
in the card. Sweeps are kept below benchmarks/work/fedmos_pooled. Writes its part of
benchmarks/papers/fedmos_pooled.md.
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from page import write_part

import fedjax_mos as fm
from fedjax_mos.data.partition import Partition
from fedjax_mos.lab import summaries
from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import Part, card_named

HERE = Path(__file__).parent
WORK, PAGE = HERE.parent / "work" / "fedmos_pooled", HERE / "fedmos_pooled.md"
COHORT, STEPS, EVERY = 25, 5, 25  # evaluated every 5 rounds of 5 steps
ROUNDS = {"mnist": 100, "cifar10": 200}  # of five steps
LOCAL_STEPS = {"mnist": 17.7, "cifar10": 48.5}  # means of the release's five epochs
INTRO = f"""\
# Table I's examples of a round, pooled

One machine that has all clients' examples takes steps of 250 of them, as many as 25
clients with batches of 10 read at a time; heavy ball (0.9) or Adam, each with the best
of three step sizes; one seed, evaluated every {EVERY} steps. It knows no drift: what it
needs at five steps a round bounds, roughly, what five local steps a round can do.
Repeat with `python benchmarks/papers/fedmos_pooled.py`; jax {jax.__version__}."""
GRIDS = {
    "heavy ball": ("fedavgm", "lr", {"server_momentum": 0.9}, (0.01, 0.03, 0.1)),
    "Adam": ("fedadam", "server_lr", {"lr": 1.0, "b1": 0.9}, (0.0003, 0.001, 0.003)),
}


def part_of(name: str) -> Part:
    """Of the card, with its columns and published values."""
    parts = {part.name: part for part in card_named("fedmos-table1").parts}
    return parts[f"{name}-tuned"]


def pooled(name: str, data_dir: Path | None, steps: int) -> fm.Experiment:
    """FedAvg of one client that owns the examples of all of the card's."""
    member = experiments(part_of(name), data_dir=data_dir)["tuned-fedmos-ucs"]
    order = np.asarray(member.build().data.order)
    return dataclasses.replace(
        member,
        algorithm="fedavg",
        options={"lr": 1.0},
        sampler="everyone",
        partition=Partition(order, np.array([len(order)])),
        clients=1,
        cohort=1,
        batch_size=COHORT * member.batch_size,
        steps=1,
        rounds=steps,
        eval_every=min(EVERY, steps),
    )


def steps_to_targets(
    name: str, base: fm.Experiment, folder: Path
) -> list[dict[str, object]]:
    """One row per optimiser, step size and column of the card: steps to its target."""
    rows: list[dict[str, object]] = []
    for kind, (algorithm, number, options, grid) in GRIDS.items():
        one = dataclasses.replace(base, algorithm=algorithm, options=options)
        cube = fm.sweep(one, out=folder / algorithm, **{number: list(grid)})
        for value, frame in cube.frame.groupby(number):
            for column in part_of(name).columns:
                assert column.target is not None
                at = summaries.rounds_to_target(frame, column.target, column.metric)
                last = frame[column.metric].dropna().iloc[-1]
                rows.append(
                    {"optimiser": kind, "step size": value, "column": column.title}
                    | {"steps": at, "last": float(last)}
                )
    return rows


def section(name: str, rows: list[dict[str, object]], steps: int) -> str:
    """A data set's part of the page."""
    frame, part = pd.DataFrame(rows), part_of(name)
    published = [part.published[f"tuned-fedmos-{s}"] for s in ("acs", "cacs", "ucs")]
    lines = [
        f"## {name}",
        "",
        "| | published, FedMoS ACS, CACS, UCS | pooled, rounds of 5 steps | "
        f"pooled, rounds of {LOCAL_STEPS[name]:g} steps | by |",
        "|---|---|---|---|---|",
    ]
    for at, (column, own) in enumerate(frame.groupby("column", sort=False)):
        best = own.sort_values("steps").iloc[0]
        said = ", ".join(str(values[at]) for values in published)
        if np.isnan(best["steps"]):
            five, epochs, by = f"> {steps // STEPS}", "", ""
        else:
            five = f"{best['steps'] / STEPS:.0f}"
            epochs = f"{best['steps'] / LOCAL_STEPS[name]:.0f}"
            by = f"{best['optimiser']}, {best['step size']:g}"
        lines.append(f"| {column} | {said} | {five} | {epochs} | {by} |")
    wide = frame.pivot(
        index=["optimiser", "step size"], columns="column", values=["steps", "last"]
    )
    wide.columns = [f"{kind}: {column}" for kind, column in wide.columns]
    text = wide.reset_index().to_csv(index=False, float_format="%.4g").strip()
    return "\n".join([*lines, "", "```", text, "```", ""])


def main() -> None:
    """What the words ask for; both data sets without any."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[*ROUNDS])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    fm.use_all_cores()
    for name in given.names:
        steps = 2 if given.tiny else ROUNDS[name] * STEPS
        folder = WORK / ("tiny" if given.tiny else name)
        rows = steps_to_targets(name, pooled(name, given.data_dir, steps), folder)
        text = section(name, rows, steps)
        print(text, flush=True)
        if not given.tiny:
            write_part(PAGE, INTRO, name, text)


if __name__ == "__main__":
    main()
