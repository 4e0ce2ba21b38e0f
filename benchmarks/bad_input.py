"""Thousands of generated inputs, good and bad, and what became of them.

    python benchmarks/bad_input.py --inputs 10000 --processes 200 --out FILE.md

tests/bad_input has the generator, which knows of every input whether it is right. Each
must be accepted (it then stops before its first round, with the values that were given)
or refused by a message that names argument and value, in 20 s and 10 GiB of address
space. Pieces of 250 inputs run in processes of their own and are kept in a folder of
scratch files, so that the same call continues one that was ended.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
PIECE = 250
GIB = 2**30


def piece(number: int, scratch: Path) -> None:
    """One piece's inputs in this process; the counts go to a file."""
    sys.path.insert(0, str(HERE))
    from tests.bad_input import folders, harness
    from tests.bad_input.kinds import draw

    folders.ROOT.append(scratch / "results")
    for kind in folders.KINDS:
        folders.written(kind)
    resource.setrlimit(resource.RLIMIT_AS, (10 * GIB, 10 * GIB))
    rng = random.Random(number)
    counts: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    troubles = []
    with tempfile.TemporaryDirectory() as folder, harness.no_rounds():
        os.chdir(folder)
        for _ in range(PIECE):
            given = draw(rng, readers=True)
            begin = time.perf_counter()
            found = harness.outcome(given)
            seconds = time.perf_counter() - begin
            row = counts[given.kind]
            row[0 if found.accepted else 1] += 1
            row[2] += bool(found.trouble)
            row[3] = max(row[3], seconds)
            if found.trouble:
                told = given.call if isinstance(given.call, list) else given.kind
                troubles.append([str(told), found.trouble, found.message])
        os.chdir(HERE)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    _keep(scratch / f"piece-{number:03}.json", [counts, troubles, memory])


def processes(number: int, scratch: Path, count: int = 20) -> None:
    """Some wrong command lines as real processes, which must end with status 2."""
    sys.path.insert(0, str(HERE))
    from tests.bad_input import command_lines, files, harness

    rng = random.Random(10_000 + number)
    kinds = [
        command_lines.run,
        command_lines.compare,
        command_lines.sweep,
        command_lines.search,
        command_lines.tune,
        command_lines.words_only,
        files.npz,
        files.images,
        files.config,
    ]
    troubles, done, slowest = [], 0, 0.0
    env = os.environ | {"PYTHONPATH": str(HERE)}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        while done < count:
            given = rng.choice(kinds)(rng)
            words = given.call
            if not given.wrong or "could not be fetched" in str(given.wrong):
                continue  # what is right would train, or ask the network
            begin = time.perf_counter()
            ended = subprocess.run(
                [sys.executable, "-m", "fedjax_mos", *words],
                capture_output=True,
                text=True,
                timeout=120,
                env=env,
            )
            slowest = max(slowest, time.perf_counter() - begin)
            done += 1
            unclear = harness.unclear(ended.stderr + ended.stdout, given.wrong)
            if ended.returncode != 2 or unclear:
                troubles.append(
                    [str(words), f"{ended.returncode} {unclear}", ended.stderr]
                )
        os.chdir(HERE)
    counts = {"a process of its own": [0, done, len(troubles), slowest]}
    _keep(scratch / f"process-{number:03}.json", [counts, troubles, 0.0])


def _keep(path: Path, value: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def main() -> None:
    """All pieces that are not there yet, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=200)
    parser.add_argument("--out", type=Path)
    scratch = Path(tempfile.gettempdir()) / "fedjax_mos_bad_input"
    parser.add_argument("--scratch", type=Path, default=scratch)
    parser.add_argument(
        "--only", help="piece:NUMBER or process:NUMBER, in this process"
    )
    told = parser.parse_args()
    told.scratch.mkdir(parents=True, exist_ok=True)
    if told.only:
        kind, _, number = told.only.partition(":")
        {"piece": piece, "process": processes}[kind](int(number), told.scratch)
        return
    wanted = [f"piece:{i}" for i in range(-(-told.inputs // PIECE))]
    wanted += [f"process:{i}" for i in range(-(-told.processes // 20))]
    for each in wanted:
        kind, _, number = each.partition(":")
        if not (told.scratch / f"{kind}-{int(number):03}.json").exists():
            call = [sys.executable, __file__, "--only", each]
            subprocess.run([*call, "--scratch", told.scratch], check=True, cwd=HERE)
    text = table(told.scratch, wanted)
    print(text)
    if told.out:
        told.out.write_text(text)


def table(scratch: Path, wanted: list[str]) -> str:
    """All counts as Markdown, and every trouble."""
    total: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    troubles, most = [], 0.0
    for each in wanted:
        kind, _, number = each.partition(":")
        path = scratch / f"{kind}-{int(number):03}.json"
        counts, more, memory = json.loads(path.read_text())
        troubles, most = troubles + more, max(most, memory)
        for name, row in counts.items():
            seen = total[name]
            seen[:3] = [a + b for a, b in zip(seen[:3], row[:3], strict=True)]
            seen[3] = max(seen[3], row[3])
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print("# Generated inputs, good and bad\n")
        print("`python benchmarks/bad_input.py --inputs 10000 --processes 200`\n")
        print("| kind | accepted | refused | trouble | slowest, s |")
        print("|---|---|---|---|---|")
        for name, (good, bad, wrong, slow) in sorted(total.items()):
            print(f"| {name} | {good:.0f} | {bad:.0f} | {wrong:.0f} | {slow:.1f} |")
        sums = [sum(row[i] for row in total.values()) for i in range(3)]
        print(f"| all | {sums[0]:.0f} | {sums[1]:.0f} | {sums[2]:.0f} | |\n")
        print(f"{sum(sums[:2]):,.0f} inputs, {sums[2]:.0f} troubles. A trouble is a")
        print("traceback, more than 20 s or 10 GiB, a wrong input that is accepted, a")
        print("right one that is refused, a value that is changed, or a message that")
        print("does not name argument, value and what is allowed. Largest resident set")
        print(f"of a piece: {most:.1f} GiB.")
        for told, trouble, message in troubles:
            print(f"\n- {told}\n  {trouble}\n  {message}")
    return out.getvalue()


if __name__ == "__main__":
    main()
