"""Kill runs at random moments, resume them, compare with the uninterrupted one.

    python benchmarks/kills.py --kills 60

Each case is started with the command line, killed (SIGKILL, which nothing can catch) at
random moments after its first checkpoint, started again with the same command until it
has been killed often enough, and then let alone. Histories (but for seconds) and
parameters must be equal to the last bit. Results go to benchmarks/results/kills.md.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd

RESULT = Path(__file__).parent / "results" / "kills.md"
EACH = 3  # kills of one run before it is let alone
CASES = {
    "run": "run --rounds 4000 --eval-every 7",
    "run, SCAFFOLD": "run --rounds 4000 --algorithm scaffold --eval-every 7",
    "run, rows on disk": "run --rounds 1500 --algorithm scaffold --rows disk "
    "--model mlp --set hidden=512 --eval-every 7",
    "run, FedCAMS": "run --rounds 3000 --algorithm fedcams --eval-every 7",
    "compare": "compare --rounds 2500 --seeds 2 --eval-every 50 "
    "--algorithms fedavg scaffold",
    "sweep": "sweep --rounds 2000 --over lr=0.1,0.2 --seeds 2 --width 2 --eval-every 7",
}


def start(words: str, out: Path) -> subprocess.Popen:
    """The command, as a process of its own."""
    often = ["--checkpoint-every", "0.3"]
    return subprocess.Popen(
        [sys.executable, "-m", "fedjax_mos", *words.split(), *often, "--out", str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_checkpoint(out: Path) -> bool:
    """Whether there is something to resume from."""
    places = ("checkpoints/0*", "*/checkpoints/0*", "checkpoints/*/0*")
    return any(any(out.glob(place)) for place in places)


def killed(words: str, out: Path, kills: int, longest: float) -> int:
    """Run to the end through so many kills; how many there were."""
    done = 0
    while True:
        process = start(words, out)
        while done < kills and process.poll() is None and not has_checkpoint(out):
            time.sleep(0.01)
        if done < kills:
            try:
                process.communicate(timeout=random.uniform(0.0, longest))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                done += 1
                continue
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{words} ended with {process.returncode}: {errors}")
        return done


def different(ours: Path, theirs: Path) -> list[str]:
    """The files that are not equal."""
    wrong = []
    for path in theirs.rglob("*"):
        other = ours / path.relative_to(theirs)
        if path.name == "history.csv":
            frames = [pd.read_csv(p).drop(columns="seconds") for p in (path, other)]
            wrong += [] if frames[0].equals(frames[1]) else [str(other)]
        if path.name == "cube.parquet":
            frames = [pd.read_parquet(p).drop(columns="seconds") for p in (path, other)]
            wrong += [] if frames[0].equals(frames[1]) else [str(other)]
        if path.name == "params.npz" and path.read_bytes() != other.read_bytes():
            wrong.append(str(other))
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    random.seed(given.seed)
    base, rows = Path(tempfile.mkdtemp()), []
    for name, words in CASES.items():
        whole = base / "whole"
        killed(words, whole, 0, 0.0)  # compiles
        shutil.rmtree(whole)
        begin = time.perf_counter()
        killed(words, whole, 0, 0.0)
        longest = time.perf_counter() - begin
        total, wrong = 0, []
        while total < given.kills / len(CASES):
            ended = base / "ended"
            total += killed(words, ended, EACH, 0.6 * longest)
            wrong += different(ended, whole)
            shutil.rmtree(ended)
        shutil.rmtree(whole)
        rows.append(f"| {name} | {total} | {len(wrong)} |")
        print(rows[-1], wrong, flush=True)
    text = "\n".join(
        ["| command | kills | files that differ |", "|---|---|---|", *rows]
    )
    RESULT.write_text(
        "# Killed and resumed\n\nSIGKILL at random moments after the first checkpoint; "
        "histories and parameters against the uninterrupted run. Repeat with `python "
        f"benchmarks/kills.py --kills {given.kills}`.\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
