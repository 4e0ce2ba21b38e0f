"""Accuracy against bits: FedAvg, FedAMS, FedCAMS and the six NLA/AA recipes.

    python benchmarks/bits_study.py --data-dir FOLDER

The setting of the NLA/AA paper where it gives one: Fashion-MNIST, 100 clients of which
half take part, 3 local epochs, batch 32, top-k of 1/8 and 1/128, IID and non-IID (two
shards per client). What it leaves open is FedCAMS's: MLP 784-64-10 with dropout 0.5,
b1 = 0.9, b2 = 0.99, eps = 1e-3.

Step sizes come from `--part tune`: four values of FedAvg's, then four of FedAMS's
server behind the same local one, 20 rounds each; the least training loss summed over
both partitions wins, and the recipes take those of FedAMS. (FedAMS's four were moved
twice, because the best lay at an edge: it had two tries more.) `--part scan` says at
which kappa a rule fires at all; a run takes the least that fires for a tenth of the
messages of its scan (the largest if none does). Every run leaves its history in --out
and is skipped when it is there, so the command can be stopped and repeated. The report
goes to benchmarks/results/bits_study.{csv,md,png}.
"""

import dataclasses
import itertools
from pathlib import Path
from typing import Literal

import jax
import pandas as pd
import tyro

import fedjax_mos as fm

RESULTS = Path(__file__).parent / "results" / "bits_study"
TARGET, EVERY = 0.8, 5
PARTITIONS, FRACTIONS = ("iid", "shards"), (1 / 8, 1 / 128)
FEDAVG, AMS = {"lr": 0.1}, {"lr": 0.1, "server_lr": 0.3}  # the winners of `tune`
DENSE = {"fedavg": FEDAVG, "fedams": AMS, "fednlaa": AMS, "fedaa": AMS}
COMPRESSED = dict.fromkeys(
    ("fedcams", "fednlaca", "fedaca", "fedbnlaca", "fedbaca"), AMS
)
TWO_WAY = ("fedbnlaca", "fedbaca")
# Rule -> the method it is scanned with, its option, the values.
SCAN = {
    "NLA": ("fednlaa", "uplink.kappa", (0.2, 0.5, 0.8, 1.0)),
    "AA": ("fedaa", "uplink.kappa", (0.2, 0.5, 0.8, 1.0)),
    "NLA, top-k": ("fednlaca", "uplink.kappa", (1.0, 1.2, 1.5, 2.0)),
    "AA, top-k": ("fedaca", "uplink.kappa", (1.0, 1.2, 1.5, 2.0)),
    "NLA down, top-k": ("fedbnlaca", "downlink.kappa", (5e-4, 2e-3, 8e-3, 0.03)),
}
RULES = {
    "fednlaa": ("NLA",),
    "fedaa": ("AA",),
    "fednlaca": ("NLA, top-k",),
    "fedaca": ("AA, top-k",),
    "fedbnlaca": ("NLA, top-k", "NLA down, top-k"),
    "fedbaca": ("AA, top-k",),
}
OFTEN = 0.1
# The paper's ordering: (of the first, less of what, than of the second).
CLAIMS = (
    ("fednlaa", "bits", "fedams"),
    ("fednlaa", "bits", "fedavg"),
    ("fedcams", "bits", "fedams"),
    ("fednlaca", "bits", "fedcams"),
    ("fedaca", "bits", "fedcams"),
    ("fedbnlaca", "bits", "fednlaca"),
    ("fedbaca", "bits", "fedaca"),
    ("fedaa", "round", "fedams"),
    ("fedbaca", "round", "fedcams"),
)


@dataclasses.dataclass(frozen=True)
class Study:
    """Draw accuracy against cumulative bits; every finished run is kept."""

    data_dir: Path | None = None
    """Folder with fashion_mnist.npz; without it the study is skipped."""
    out: Path = Path("runs/bits_study")
    """Folder of the single runs."""
    part: Literal["all", "tune", "scan", "runs", "report"] = "all"
    """What to do."""
    rounds: int = 200
    """Rounds of a run."""
    short: int = 20
    """Rounds of a run of `tune` and `scan`."""

    def history(
        self, kind: str, algorithm: str, partition: str, rounds: int, **options: float
    ) -> pd.DataFrame:
        """The history of one run, from its file if there is one."""
        named = "-".join(f"{k}={v:g}" for k, v in options.items())
        file = self.out / f"{kind}-{partition}-{algorithm}-{named}-{rounds}.csv"
        if not file.exists():
            print(file.stem, flush=True)
            store = "train" if kind == "tune" else "test"
            every = rounds if kind == "tune" else min(EVERY, rounds)
            history = self.train(algorithm, partition, rounds, store, every, options)
            file.parent.mkdir(parents=True, exist_ok=True)
            history.to_csv(file, index=False)
        return pd.read_csv(file)

    def train(self, algorithm, partition, rounds, store, every, options):
        jax.clear_caches()  # ninety programs are more than a process can hold
        made = fm.Experiment(
            algorithm=algorithm,
            sampler="ucs",
            dataset="fashion_mnist",
            data_dir=self.data_dir,
            partition=partition,
            clients=100,
            cohort=50,
            epochs=3,
            batch_size=32,
            model="mlp",
            options={"hidden": (64,), "model.dropout": 0.5} | options,
        ).build()
        state, key = made.start(jax.random.key(0))
        _, history = fm.run(
            made.sim,
            made.data,
            state,
            key,
            rounds,
            evaluate=made.evaluate,
            stores={store: made.stores[store]},
            every=every,
            progress=False,
        )
        return history

    def tune(self) -> str:
        grids = {
            "fedavg": [{"lr": lr} for lr in (0.03, 0.1, 0.2, 0.4)],
            "fedams": [{"lr": 0.1, "server_lr": g} for g in (0.03, 0.1, 0.3, 1.0)],
        }
        rows = [
            {
                "method": method,
                **cell,
                **{
                    f"train loss, {p}": self.history(
                        "tune", method, p, self.short, **cell
                    )["train_loss"].iloc[-1]
                    for p in PARTITIONS
                },
            }
            for method, grid in grids.items()
            for cell in grid
        ]
        return as_markdown(rows)

    def rates(
        self, rule: str, partition: str, fraction: float | None
    ) -> dict[float, float]:
        """kappa -> share of the messages for which the rule fires."""
        method, option, kappas = SCAN[rule]
        column = "local_fired_" + option.split("link")[0]
        numbers = (DENSE | COMPRESSED)[method] | sent(method, fraction)
        if method in TWO_WAY:  # the other rule of the pair as it will be
            numbers |= {
                "uplink.kappa": self.kappa(RULES[method][0], partition, fraction)
            }
        return {
            kappa: self.history(
                "scan", method, partition, self.short, **numbers | {option: kappa}
            )[column].mean()
            for kappa in kappas
        }

    def kappa(self, rule: str, partition: str, fraction: float | None) -> float:
        """The least value at which the rule fires often, or the largest."""
        found = self.rates(rule, partition, fraction)
        return next((k for k, rate in found.items() if rate >= OFTEN), max(found))

    def scan(self) -> str:
        blocks = []
        for rule, (method, _, _) in SCAN.items():
            fractions = FRACTIONS if method in COMPRESSED else (None,)
            rows = [
                {"rule": rule, "partition": partition, "top-k": share(fraction)}
                | {
                    f"{kappa:g}": f"{100 * rate:.1f} %"
                    for kappa, rate in self.rates(rule, partition, fraction).items()
                }
                for partition in PARTITIONS
                for fraction in fractions
            ]
            blocks.append(as_markdown(rows))
        return "\n".join(blocks)

    def numbers(
        self, method: str, partition: str, fraction: float | None
    ) -> dict[str, float]:
        """All options of a run."""
        return (
            (DENSE | COMPRESSED)[method]
            | sent(method, fraction)
            | {
                SCAN[rule][1]: self.kappa(rule, partition, fraction)
                for rule in RULES.get(method, ())
            }
        )

    def runs(self) -> pd.DataFrame:
        """All evaluated rounds of all runs."""
        cells = [(m, None) for m in DENSE] + [
            (m, f) for f in FRACTIONS for m in COMPRESSED
        ]
        found = []
        for partition, (method, fraction) in itertools.product(PARTITIONS, cells):
            numbers = self.numbers(method, partition, fraction)
            history = self.history("run", method, partition, self.rounds, **numbers)
            for way in ("up", "down"):
                fired = history.get(f"local_fired_{way}")
                history[f"fired_{way}"] = (
                    float("nan") if fired is None else fired.mean()
                )
            history = history.dropna(subset=["test_accuracy"])
            ids = {"partition": partition, "method": method, "topk": share(fraction)}
            for way in ("up", "down"):
                ids[f"kappa_{way}"] = numbers.get(f"{way}link.kappa", float("nan"))
            found.append(history.assign(**ids))
        table = pd.concat(found)
        table["bits"] = table["bits_up"] + table["bits_down"]
        columns = [
            "round",
            "test_accuracy",
            "test_loss",
            "bits_up",
            "bits_down",
            "bits",
        ]
        rules = ["kappa_up", "kappa_down", "fired_up", "fired_down"]
        return table[["partition", "method", "topk", *columns, *rules]].round(5)


def sent(method: str, fraction: float | None) -> dict[str, float]:
    """The share of entries that a method's channels send."""
    if fraction is None:
        return {}
    ways = ("uplink", "downlink") if method in TWO_WAY else ("uplink",)
    return {f"{way}.fraction": fraction for way in ways}


def share(fraction: float | None) -> str:
    return "dense" if fraction is None else f"1/{round(1 / fraction)}"


def to_target(table: pd.DataFrame) -> pd.DataFrame:
    """One row per run: what 80 % took, the last accuracy, and how often rules fired."""
    rows = []
    for ids, run in table.groupby(["partition", "method", "topk"], sort=False):
        reached = run[run["test_accuracy"] >= TARGET]
        first = reached.iloc[0] if len(reached) else pd.Series(dtype=float)
        rows.append(
            dict(zip(("partition", "method", "top-k"), ids, strict=True))
            | {
                "round": first.get("round", float("nan")),
                "Mbit up": first.get("bits_up", float("nan")) / 1e6,
                "bits": first.get("bits", float("nan")) / 1e6,
                "kappa": run["kappa_up"].iloc[-1],
                "kappa down": run["kappa_down"].iloc[-1],
                "final": 100 * run["test_accuracy"].iloc[-1],
                "fired up": 100 * run["fired_up"].iloc[-1],
                "fired down": 100 * run["fired_down"].iloc[-1],
            }
        )
    return pd.DataFrame(rows)


def verdicts(summary: pd.DataFrame) -> str:
    """Whether the paper's ordering holds, claim by claim."""
    rows = []
    for left, column, right in CLAIMS:
        for (partition, topk), cell in summary.groupby(["partition", "top-k"]):
            dense = summary[
                (summary["partition"] == partition) & (summary["top-k"] == "dense")
            ]
            values = pd.concat([cell, dense]).drop_duplicates("method")
            values = values.set_index("method")[column]
            if left not in cell["method"].to_list():
                continue
            a, b = values[left], values[right]
            verdict = "yes" if a < b or (pd.notna(a) and pd.isna(b)) else "no"
            if pd.isna(a) and pd.isna(b):
                verdict = "neither reaches 80 %"
            what = "Mbit" if column == "bits" else "rounds"
            rows.append(
                {
                    "claim": f"{left} needs fewer {what} than {right}",
                    "partition": partition,
                    "top-k": topk,
                    "first": a,
                    "second": b,
                    "holds": verdict,
                }
            )
    return as_markdown(rows)


def as_markdown(rows: "list[dict] | pd.DataFrame") -> str:
    table = pd.DataFrame(rows)

    def cell(value) -> str:
        if not isinstance(value, str) and pd.isna(value):
            return "-"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    lines = [list(table), ["---"] * len(table.columns)]
    lines += [[cell(v) for v in row] for row in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def picture(table: pd.DataFrame) -> None:
    """Accuracy against cumulative bits: a row per partition."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(PARTITIONS), 2, squeeze=False)
    styles = {"dense": "-", "1/8": "--", "1/128": ":"}
    colours = {m: f"C{i}" for i, m in enumerate([*DENSE, *COMPRESSED])}
    panels = {"bits_up": "bits up", "bits": "bits up and down"}
    for row, partition in zip(axes, PARTITIONS, strict=True):
        for axis, (column, label) in zip(row, panels.items(), strict=True):
            here = table[table["partition"] == partition]
            for (method, topk), run in here.groupby(["method", "topk"], sort=False):
                axis.plot(
                    run[column],
                    run["test_accuracy"],
                    styles[topk],
                    color=colours[method],
                    label=f"{method} {topk}",
                )
            axis.axhline(TARGET, color="grey", linewidth=0.5)
            axis.set(xscale="log", xlabel=label, ylabel="test accuracy")
            axis.set_title(partition)
    axes[0, 1].legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(RESULTS.with_suffix(".png"), dpi=90)


def report(study: Study) -> None:
    """Write the table of all curves, the text and the picture."""
    table = study.runs()
    summary = to_target(table)
    shown = summary.rename(columns={"bits": "Mbit up + down", "final": "final, %"})
    shown = shown.rename(columns={"fired up": "fired up, %", "fired down": "down, %"})
    RESULTS.parent.mkdir(exist_ok=True)
    table.to_csv(RESULTS.with_suffix(".csv"), index=False)
    picture(table)
    RESULTS.with_suffix(".md").write_text(
        "# Accuracy against bits on Fashion-MNIST\n\n"
        "`python benchmarks/bits_study.py --data-dir FOLDER`; setting and choice of "
        f"numbers in its first lines. {study.rounds} rounds, one seed; jax "
        f"{jax.__version__}, {jax.default_backend()}.\n\n"
        f"## Bits to {100 * TARGET:g} % test accuracy\n\n{as_markdown(shown)}\n"
        "The first evaluated round (every fifth is) that reaches the target; - where "
        "none does. Firing rates are means over all rounds and participants.\n\n"
        f"## The paper's ordering\n\n{verdicts(summary)}\n"
        f"## Where the rules fire\n\nShare of messages for which a rule fires in the "
        f"first {study.short} rounds, by kappa.\n\n{study.scan()}\n"
        f"## Step sizes\n\nAfter {study.short} rounds.\n\n{study.tune()}"
    )


def main(study: Study) -> None:
    if study.data_dir is None or not (study.data_dir / "fashion_mnist.npz").exists():
        print("skipped: --data-dir must be a folder with fashion_mnist.npz")
        return
    if study.part in ("all", "tune"):
        print(study.tune())
    if study.part in ("all", "scan"):
        print(study.scan())
    if study.part == "runs":
        study.runs()
    if study.part in ("all", "report"):
        report(study)


if __name__ == "__main__":
    fm.use_all_cores()
    main(tyro.cli(Study, description=__doc__))
