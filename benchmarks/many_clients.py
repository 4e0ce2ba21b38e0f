"""How cost grows with clients, cohort, model, state, lanes and rows on disk.

    python benchmarks/many_clients.py [--quick] [--only TABLE ...]

Every line is a process of its own, so that its peak is its own. `peak` is the largest
resident memory (ru_maxrss), `anonymous` the largest RssAnon of /proc/self/status (seen
every 10 ms): what the process itself holds, without pages of files, which the system
may take back at any time. `setup` is all but the rounds and their compilation: imports,
the making of the data, their division, the first state, the result. Results go to
benchmarks/results/many_clients.md and into docs/scale.md, where tables that were not
asked for stay.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULT = HERE / "results" / "many_clients.md"
PAGE = HERE.parent / "docs" / "scale.md"
MARK = "<!-- benchmarks/many_clients.py writes what follows -->"
EXAMPLES, FEATURES = 20, 10
LARGE = (1024, 384)  # hidden units of a network of 1.2 million numbers

# Table -> lines: what the child is told. The first of a table is its unit.
TABLES: dict[str, list[dict]] = {
    "clients": [
        {"kind": "stored", "clients": n, "cohort": 1000}
        for n in (10_000, 100_000, 1_000_000)
    ]
    + [
        {"kind": "generated", "clients": n, "cohort": 1000}
        for n in (10_000, 1_000_000, 10_000_000)
    ],
    "cohort": [
        {"kind": "generated", "clients": 1_000_000, "cohort": m}
        for m in (10, 100, 1000)
    ],
    "lanes": [
        {"kind": "generated", "clients": 100_000, "cohort": 100, "seeds": s}
        for s in (1, 4, 16)
    ],
    "model": [
        {"kind": "rows", "clients": 100, "hidden": h, "rows": "memory"}
        for h in ((64,), (256,), (1024,), LARGE)
    ],
    "rows": [
        {"kind": "rows", "clients": 100, "rows": "memory"},
        {"kind": "rows", "clients": 100, "rows": "disk"},
        {"kind": "rows", "clients": 1000, "rows": "memory"},
        {"kind": "rows", "clients": 2000, "rows": "disk"},
    ],
}


class Watch(threading.Thread):
    """The largest anonymous memory of this process so far."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most = 0

    def run(self) -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    self.most = max(self.most, int(line.split()[1]) * 1024)
            time.sleep(0.01)


def experiment(told: dict, rounds: int):
    """What a line is about."""
    import numpy as np

    import fedjax_mos as fm
    from fedjax_mos.types import Cohort, Sampler

    clients, rng = told["clients"], np.random.default_rng(0)
    common = {"clients": clients, "rounds": rounds, "eval_every": rounds}
    if told["kind"] == "generated":
        return fm.Experiment(
            algorithm="fedmos",
            sampler="acs",
            dataset="synthetic_population",
            cohort=told["cohort"],
            **common,
        )
    if told["kind"] == "stored":
        x = rng.standard_normal((clients * EXAMPLES, FEATURES), np.float32)
        y = (x[:, 0] > x[:, 1]).astype(np.int32)
        return fm.Experiment(
            algorithm="fedmos",
            sampler="acs",
            dataset=fm.arrays(x, y, x[:1000], y[:1000]),
            partition="iid",
            model="logistic",
            cohort=told["cohort"],
            **common,
        )
    cohort = 10

    def in_turn(state, view, key):  # every row is visited
        import jax.numpy as jnp

        ids = (view.round * cohort + jnp.arange(cohort)) % clients
        return Cohort(ids, jnp.full(cohort, 1 / cohort), jnp.ones(cohort, bool)), state

    x = rng.standard_normal((clients * EXAMPLES, 784), np.float32)
    y = rng.integers(0, 10, len(x))
    return fm.Experiment(
        algorithm="scaffold",
        sampler=Sampler(lambda view, key: (), in_turn),
        dataset=fm.arrays(x, y, x[:100], y[:100], classes=10),
        partition="iid",
        model="mlp",
        cohort=cohort,
        rows=told["rows"],
        backend=told.get("backend", "auto"),
        options={"hidden": tuple(told.get("hidden", LARGE)), "lr": 0.05},
        **common,
    )


def child(told: dict) -> None:
    """One line, measured: its numbers as JSON."""
    begin = time.perf_counter()
    watch = Watch()
    watch.start()
    import fedjax_mos as fm

    fm.use_all_cores()
    rounds = told["rounds"]
    frame = experiment(told, rounds).run(told.get("seeds"), progress=False).frame
    times = frame["seconds"].to_numpy()[:rounds]
    found = {
        "setup": time.perf_counter() - begin - times[-1],
        # Behind the first ten rounds, which are compiled, and before the last ten,
        # which end with an evaluation.
        "seconds per round": (times[-11] - times[9]) / (rounds - 20),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "anonymous": watch.most,
    }
    print(json.dumps(found))


def measured(told: dict, quick: bool) -> dict:
    """A line from a process of its own."""
    rounds = 50 if told["kind"] != "rows" else max(30, told["clients"] // 10)
    words = told | {"rounds": 30 if quick else rounds}
    if quick:
        words["clients"] = max(words["clients"] // 100, 2 * words.get("cohort", 10))
    out = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(words)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    return words | json.loads(out.stdout.splitlines()[-1])


def section(found: list[dict], note: str) -> str:
    """A table, as Markdown."""
    out = [f"{note}| what | set-up | per round | ratio | peak | anonymous |"]
    out += ["|---|---:|---:|---:|---:|---:|"]
    for line in found:
        first = next(one for one in found if one["kind"] == line["kind"])
        ratio = line["seconds per round"] / first["seconds per round"]
        known = ("kind", "clients", "cohort", "seeds", "hidden", "rows")
        words = [_word(n, line[n]) for n in known if n in line]
        sizes = [f"{line[n] / 2**30:.2f} GiB" for n in ("peak", "anonymous")]
        out.append(
            f"| {', '.join(words)} | {line['setup']:.1f} s | "
            f"{line['seconds per round']:.4f} s | {ratio:.2f} | "
            f"{' | '.join(sizes)} |"
        )
    return "\n".join(out)


def replaced(page: str, sections: dict[str, str]) -> str:
    """A page with these tables in place of their earlier ones; others stay."""
    _, *parts = re.split(r"^### ", page, flags=re.MULTILINE)
    kept = {name: text for name, _, text in (part.partition("\n") for part in parts)}
    both = kept | sections
    return "".join(f"\n### {name}\n\n{text.strip()}\n" for name, text in both.items())


def _word(name: str, value: object) -> str:
    if name == "kind":
        return str(value)
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return f"{name} {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a hundredth, to try it")
    parser.add_argument("--only", nargs="*", default=list(TABLES))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        child(json.loads(words.child))
        return
    lines: dict[str, list[dict]] = {}
    for table in words.only:
        for told in TABLES[table]:
            lines.setdefault(table, []).append(measured(told, words.quick))
            print(json.dumps(lines[table][-1]), flush=True)
    note = "A hundredth of the clients, on a busy machine: to be measured again.\n\n"
    found = {n: section(all, note if words.quick else "") for n, all in lines.items()}
    RESULT.write_text(replaced(RESULT.read_text() if RESULT.exists() else "", found))
    if PAGE.exists():
        before, _, after = PAGE.read_text().partition(MARK)
        PAGE.write_text(f"{before}{MARK}\n{replaced(after, found)}")


if __name__ == "__main__":
    main()
