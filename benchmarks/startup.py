"""The first minute: seconds from command to picture and from edit to answer.

    python benchmarks/startup.py --before feb1a74 --repeats 5

Each figure is taken of this tree and of an earlier commit in turn, in processes of
their own, on the same machine; medians and ratios are printed and written to
benchmarks/results/startup.md. The packages must be installed; both trees are put on
PYTHONPATH. Nothing else should run meanwhile.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "startup.md"
CLI = "import sys; sys.argv[1:] = {}; from fedjax_mos.cli import main; main()"
RERUN = """
import time
import fedjax_mos as fm
fm.use_all_cores()
fm.Experiment(rounds=100).run(progress=False)
begin = time.perf_counter()
result = fm.Experiment(rounds=100, options={"lr": 0.2}, seed=1).run(progress=False)
print(time.perf_counter() - begin)
"""


def process(tree: Path, code: str, cache: Path, folder: Path) -> tuple[float, str]:
    """Seconds that a fresh interpreter takes for `code`, and what it prints."""
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "XDG_CACHE_HOME": str(cache),
    }
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return time.perf_counter() - begin, done.stdout


def figures(tree: Path) -> dict[str, float]:
    """Every figure once."""
    folder, cache = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())

    def took(code: str) -> float:
        return process(tree, code, cache, folder)[0]

    try:
        return {
            "compare, empty cache": took(CLI.format(["compare"])),
            "compare again": took(CLI.format(["compare"])),
            "run again in one process": float(process(tree, RERUN, cache, folder)[1]),
            "import fedjax_mos": took("import fedjax_mos; fedjax_mos.Experiment"),
            "import jax, flax, optax": took("import jax, flax, optax"),
            "fedjax-mos --help": took(
                f"try: {CLI.format(['--help'])}\nexcept SystemExit: pass".replace(
                    "; ", "\n    "
                ).replace("try: ", "try:\n    ")
            ),
            "import tyro": took("import tyro"),
        }
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="feb1a74")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    earlier = Path(tempfile.mkdtemp()) / "before"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--detach", str(earlier), given.before], check=True)
    try:
        seen: dict[str, list[dict[str, float]]] = {"before": [], "now": []}
        for _ in range(given.repeats):
            seen["before"].append(figures(earlier))
            seen["now"].append(figures(ROOT))
            print({k: v[-1] for k, v in seen.items()}, flush=True)
    finally:
        subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    lines = ["| seconds | before | now | ratio |", "|---|---|---|---|"]
    for name in seen["now"][0]:
        old, new = (
            statistics.median(run[name] for run in seen[which])
            for which in ("before", "now")
        )
        lines.append(f"| {name} | {old:.2f} | {new:.2f} | {new / old:.2f} |")
    text = "\n".join(lines)
    print(text)
    RESULT.write_text(
        "# The first minute\n\n"
        f"Medians of {given.repeats} alternating runs, {os.cpu_count()} CPU cores; "
        f"before: {given.before}. Repeat with `python "
        f"benchmarks/startup.py --before {given.before}`.\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
