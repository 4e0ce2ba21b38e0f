"""What checkpoints every 10 seconds cost: W1 with and without them, in turn.

    python benchmarks/checkpoint_cost.py --repeats 5

Each run is `fm.run` of the same rounds from the same state, compiled before, and long
enough for a few checkpoints. Medians and their ratio are printed and written to
benchmarks/results/checkpoint_cost.md. Nothing else should run meanwhile.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import fedjax_mos as fm

fm.use_all_cores()

import jax  # noqa: E402
import ours  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

from fedjax_mos.engine.checkpoints import Checkpoints  # noqa: E402

RESULT = Path(__file__).parent / "results" / "checkpoint_cost.md"
EVERY = 10.0


def timed(spent: list[float]) -> None:
    """Have every checkpoint say how long it took."""
    save = Checkpoints.save

    def saved(*args: Any) -> bool:
        begin = time.perf_counter()
        done = save(*args)
        spent.append(time.perf_counter() - begin)
        return done

    Checkpoints.save = saved  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    work = WORKLOADS["W1"]
    sim, data, key = ours.simulation(work), ours.federated(work), jax.random.key(0)
    state = sim.init(ours.starting(work.model), data, key)
    folder, spent = Path(tempfile.mkdtemp()), []
    timed(spent)

    def seconds(checkpoints: bool) -> float:
        shutil.rmtree(folder, ignore_errors=True)
        kept = Checkpoints(folder, every=EVERY) if checkpoints else None
        begin = time.perf_counter()
        fm.run(sim, data, state, key, given.rounds, progress=False, checkpoints=kept)
        return time.perf_counter() - begin

    seconds(False)  # compiles
    seen: dict[bool, list[float]] = {False: [], True: []}
    for repeat in range(given.repeats):
        for which in (False, True) if repeat % 2 else (True, False):
            seen[which].append(seconds(which))
        print({k: v[-1] for k, v in seen.items()}, flush=True)
    plain, kept = (statistics.median(seen[which]) for which in (False, True))
    pairs = [b / a - 1 for a, b in zip(seen[False], seen[True], strict=True)]
    text = (
        f"{given.rounds} rounds of W1: {plain:.1f} s without, {kept:.1f} s with a "
        f"checkpoint every {EVERY:.0f} s: {100 * (kept / plain - 1):+.1f} % (pair by "
        f"pair {', '.join(f'{100 * p:+.1f}' for p in pairs)})."
    )
    each = statistics.median(spent)
    text += (
        f"\n\nA checkpoint itself takes {each:.3f} s (median of {len(spent)}, "
        f"slowest {max(spent):.3f}): {100 * each / EVERY:.1f} % of {EVERY:.0f} s."
    )
    print(text)
    RESULT.write_text(
        f"# What checkpoints cost\n\n{text}\n\nMedians of {given.repeats} runs in "
        "turn. Repeat with `python benchmarks/checkpoint_cost.py`.\n"
    )


if __name__ == "__main__":
    main()
