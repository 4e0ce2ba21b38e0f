"""Step sizes and momenta for Table I of FedMoS, one small budget per method.

    python benchmarks/papers/fedmos_numbers.py [mnist] [cifar10] [--tiny]

The paper prints none. In the setting of the card fedmos-table1, every tenth of the 500
clients is taken out altogether, and their examples choose: every method has 12
configurations, the numbers of the released run.sh first and 11 random draws, the third
of them with the lowest loss after 20 rounds runs to round 60, one seed. Test data play
no part. Pieces are kept below benchmarks/work/fedmos_numbers: an ended search goes on
there. Writes its part of benchmarks/papers/fedmos_numbers.md.
"""

import dataclasses
import sys
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from page import write_part

import fedjax_mos as fm
from fedjax_mos.data.partition import Partition
from fedjax_mos.data.sources.dataset import Examples
from fedjax_mos.data.sources.named import load
from fedjax_mos.lab.papers.build import experiments
from fedjax_mos.lab.papers.card import card_named

HERE = Path(__file__).parent
WORK, PAGE = HERE.parent / "work" / "fedmos_numbers", HERE / "fedmos_numbers.md"
TENTH, CONFIGURATIONS, ROUNDS, ETA, METRIC = 10, 12, 60, 3, "valid_loss"
RANGES = {
    "lr": fm.Range(0.003, 0.3, log=True),
    "storm": fm.Range(0.05, 1.0),
    "prox": fm.Range(1e-4, 0.5, log=True),
    "server_momentum": fm.Range(0.0, 0.95),
}
# A member of the card: what is drawn for it.
METHODS = {
    "fedmos-acs": ("lr", "storm", "prox", "server_momentum"),
    "fedavg-ucs": ("lr",),
    "fedprox-ucs": ("lr", "prox"),
    "stem-ucs": ("lr", "storm"),
    "fedavgm-ucs": ("lr", "server_momentum"),
}


def setting(name: str) -> tuple[dict[str, fm.Experiment], dict]:
    """The card's members, and data in which every tenth client only chooses."""
    (part,) = (p for p in card_named("fedmos-table1").parts if p.name == name)
    members = experiments(part)
    data = members["fedavg-ucs"].build().data
    order, size = np.asarray(data.order), np.asarray(data.size)
    client = np.repeat(np.arange(len(size)), size)
    out = client % TENTH == TENTH - 1
    whole = load(name)
    valid = Examples(whole.train.x[order[out]], whole.train.y[order[out]])
    kept = size[np.arange(len(size)) % TENTH != TENTH - 1]
    return members, {
        "dataset": whole._replace(valid=valid),
        "partition": Partition(order[~out], kept),
        "clients": len(kept),
    }


def points(member: fm.Experiment, names: tuple[str, ...], count: int) -> list[dict]:
    """The release's numbers, then draws, to three digits as a card can have them."""
    rng = np.random.default_rng(0)
    drawn = {n: RANGES[n].draw(rng, count - 1) for n in names}
    return [
        {n: member.options[n] for n in names},
        *({n: float(f"{drawn[n][i]:.3g}") for n in names} for i in range(count - 1)),
    ]


def searched(name: str, tiny: bool) -> dict[str, pd.DataFrame]:
    """Method -> its configurations with their losses at the rungs, best first."""
    members, data = setting(name)
    count, rounds = (3, 3) if tiny else (CONFIGURATIONS, ROUNDS)
    tables = {}
    for method, names in METHODS.items():
        base = dataclasses.replace(
            members[method], **data, rounds=rounds, eval_every=rounds
        )
        tried = points(base, names, count)
        folder = WORK / ("tiny" if tiny else name) / method
        found = fm.search(base, tried, eta=ETA, rungs=2, metric=METRIC, out=folder)
        values = found.rungs.pivot(
            index="configuration", columns="round", values="value"
        )
        values = values.sort_values([*values][::-1])
        table = pd.DataFrame([tried[i] for i in values.index], index=values.index)
        tables[method] = table.join(values.add_prefix("loss after "))
        print(f"{name}, {method}\n{tables[method].to_string()}", flush=True)
    return tables


def section(name: str, tables: dict[str, pd.DataFrame]) -> str:
    """A data set's part of the page."""
    lines = [f"## {name}", ""]
    for method, table in tables.items():
        chosen = table.iloc[0]
        numbers = ", ".join(f"{n} {chosen[n]:g}" for n in METHODS[method])
        text = table.to_string(float_format="{:.4g}".format, na_rep="")
        lines += [f"{method}: **{numbers}**", "", "```", text, "```", ""]
    return "\n".join(lines)


def intro() -> str:
    """What the page begins with."""
    draws = ", ".join(
        f"{n} in [{r.low:g}, {r.high:g}]" + " log" * r.log for n, r in RANGES.items()
    )
    return (
        "# Numbers for Table I of FedMoS\n\n"
        f"Every method: {CONFIGURATIONS} configurations (0: the release's), of which "
        f"the {CONFIGURATIONS // ETA} best after {ROUNDS // ETA} rounds ran to round "
        f"{ROUNDS}; one seed. Chosen, and in bold, by the loss on the examples of 50 "
        f"of the 500 clients, which never train. Drawn from: {draws}. FedProx's prox "
        "is multiplied by lr, FedMoS's is not. Repeat with "
        f"`python benchmarks/papers/fedmos_numbers.py`; jax {jax.__version__}."
    )


def main() -> None:
    """What the words ask for; MNIST without any."""
    tiny = "--tiny" in sys.argv
    fm.use_all_cores()
    for name in [word for word in sys.argv[1:] if word != "--tiny"] or ["mnist"]:
        tables = searched(name, tiny)
        if not tiny:
            write_part(PAGE, intro(), name, section(name, tables))


if __name__ == "__main__":
    main()
