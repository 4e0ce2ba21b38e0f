"""Speed rows that other simulators publish, from command to report.

    python benchmarks/rows.py --data-dir FOLDER [--repeats 3]

FLUTE's README times federated logistic regression on MNIST: 1000 clients, 10 a round,
one epoch of batches of 10, learning rate 0.03, 100 rounds. Here that is two commands,
`fedjax-mos run` and `fedjax-mos report`, each a process of its own, with an empty cache
of compiled programs and again with what the first time kept. FOLDER has mnist.npz (or
anything that `fedjax-mos data get mnist` would find).

The published times are of other machines, which their README does not name beyond
"CPU"; they show an order of magnitude, not a ratio. Clients' data differ as well: FLUTE
takes FedML's division of MNIST, which cannot be had here; ours has two digits per
client and 20 to 90 examples, 55 on average (60 there).
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "rows.md"
RUN = (
    "run --dataset mnist --algorithm fedavg --sampler ucs --model logistic "
    "--clients 1000 --cohort 10 --epochs 1 --batch-size 10 --rounds 100 "
    "--set lr=0.03 --set server_lr=1 --partition classes --set classes_per_client=2 "
    "--set smallest=20 --set largest=90 --eval-every 20 --out out"
)
PUBLISHED = {"Flower": "30:14", "FLUTE": "3:20"}


def command(words: list[str], folder: Path, cache: Path) -> float:
    """Seconds that a command takes, as a process of its own."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "fedjax_mos", *words],
        cwd=folder,
        env=environment,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begin


def both(data_dir: Path, cache: Path) -> float:
    """Seconds from command to report."""
    folder = Path(tempfile.mkdtemp())
    try:
        words = [*RUN.split(), "--data-dir", str(data_dir.resolve())]
        spent = command(words, folder, cache) + command(
            ["report", "out"], folder, cache
        )
        assert (folder / "out" / "report.html").exists()
        return spent
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    first, again = [], []
    for _ in range(given.repeats):
        cache = Path(tempfile.mkdtemp())
        first.append(both(given.data_dir, cache))
        again.append(both(given.data_dir, cache))
        shutil.rmtree(cache)
        print(first[-1], again[-1], flush=True)
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    lines = [
        "# Rows that others publish",
        "",
        "Logistic regression on MNIST, 1000 clients, 10 a round, 1 epoch, batch 10, "
        "learning rate 0.03, 100 rounds; minutes:seconds.",
        "",
        "| program | where | time |",
        "|---|---|---|",
        f"| fedjax_mos, `run` and `report`, nothing compiled before | {machine} | "
        f"{_clock(first)} |",
        f"| fedjax_mos, the second time | {machine} | {_clock(again)} |",
        *(
            f"| {name} | as published in FLUTE's README for CPU | {text} |"
            for name, text in PUBLISHED.items()
        ),
        "",
        f"Medians of {given.repeats} (`python benchmarks/rows.py --data-dir FOLDER`). "
        "The machines differ: an order of magnitude, not a ratio.",
    ]
    RESULT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def _clock(times: list[float]) -> str:
    spent = statistics.median(times)
    return f"{int(spent // 60)}:{spent % 60:04.1f}"


if __name__ == "__main__":
    main()
