"""Us and the peers on the same work, interleaved in one run.

    python benchmarks/peers.py [--workloads W1 W2 W3 W5 W6] [--repeats 3]

Each peer gets a virtual environment of its own in the cache folder, made once from the
versions below. One program runs at a time; before each, the script waits until the
machine is quiet. Every measurement is a JSON line in benchmarks/results/peers.jsonl;
the table of medians and ratios goes to benchmarks/results/peers.md. A peer that cannot
be installed or fails is a line of the table that says so.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path

from measure import versions, wait_until_quiet
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "fedjax_mos"
TORCH = "torch==2.13.0"
# The newest versions that install and run together on Python 3.11.
ENVIRONMENTS = {
    "torch": [TORCH, "numpy"],
    "fedjax": ["fedjax==0.0.17", "jax==0.5.3", "jaxlib==0.5.3", "dm-haiku==0.0.17"],
    "fedjax-old": [
        "fedjax==0.0.17",
        "jax==0.4.30",
        "jaxlib==0.4.30",
        "dm-haiku==0.0.12",
        "optax==0.2.3",
        "numpy==2.0.2",
        "scipy==1.14.1",
    ],
    "pfl": [TORCH, "pfl==0.6.0"],
    "flower": [TORCH, "flwr==1.41.0", "ray==2.55.1"],
}
TWO = ["-m", "torch.distributed.run", "--nproc_per_node=2"]
# Program -> environment (None: this one), interpreter options and script.
PROGRAMS = {
    "fedjax_mos": (None, [], "speed.py"),
    "torch, 1 thread": ("torch", [], "torch_loop.py"),
    "torch, 2 threads": ("torch", [], "torch_loop.py"),
    "fedjax (jax 0.5.3)": ("fedjax", [], "fedjax_run.py"),
    "fedjax (jax 0.4.30)": ("fedjax-old", [], "fedjax_run.py"),
    "pfl, 1 process": ("pfl", [], "pfl_run.py"),
    "pfl, 2 processes": ("pfl", TWO, "pfl_run.py"),
    "flower": ("flower", [], "flower_run.py"),
}
VARIABLES = {"torch, 2 threads": {"THREADS": "2"}}
ROUNDS = {"flower": {"W1": 4, "W2": 3, "W3": 5, "W5": 5}}  # the rest: the workload's


def python_of(environment: str) -> Path:
    """The interpreter of a peer's environment, installed if it is not there yet."""
    folder = CACHE / "peers" / environment
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [python, "-m", "pip", "install", "--quiet"]
        # Torch alone first: its dependencies on accelerators are not wanted.
        packages = ENVIRONMENTS[environment]
        if TORCH in packages:
            light = ["--no-deps", TORCH]
            rest = ["filelock", "typing_extensions", "sympy", "networkx", "jinja2"]
            subprocess.run([*install, *light], check=True)
            subprocess.run(
                [*install, *rest, "fsspec", "numpy", "setuptools"], check=True
            )
        subprocess.run([*install, *packages], check=True)
        (folder / "ready").touch()
    return python


def measured(program: str, workload: str, method: str) -> dict:
    """One run of one program; an error is a measurement too."""
    environment, options, script = PROGRAMS[program]
    result = {"program": program, "workload": workload, "method": method}
    try:
        python = sys.executable if environment is None else python_of(environment)
    except subprocess.CalledProcessError as error:
        return result | {"error": f"could not be installed: {error}"}
    folder = HERE if environment is None else HERE / "peer_programs"
    command = [str(python), *options, str(folder / script), workload]
    if script in ("speed.py", "torch_loop.py"):
        command.append(method)
    rounds = ROUNDS.get(program, {}).get(workload)
    command += [str(rounds)] if rounds else []
    paths = os.pathsep.join([str(HERE), str(HERE / "peer_programs")])
    env = os.environ | {"PYTHONPATH": paths} | VARIABLES.get(program, {})
    busy = wait_until_quiet()
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=600
        )
    except subprocess.TimeoutExpired:
        return result | {"error": "took more than ten minutes"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        return result | {"error": last[0]}
    return json.loads(lines[-1]) | result | {"busy_before": busy}


def methods_of(program: str, workload: str) -> list[str]:
    """What a program is measured with: ours and the loop by hand know more."""
    if not program.startswith(("fedjax_mos", "torch")):
        return [] if WORKLOADS[workload].epochs else ["fedavg"]
    return ["fedavg", "fedmos"] if workload in ("W1", "W6") else ["fedavg"]


def table(results: list[dict]) -> str:
    """Medians over the repeats, and how many times slower than ours."""
    out = ["| workload | program | seconds per round | times ours | loss |"]
    out.append("|---|---|---|---|---|")
    cells: dict[tuple, dict[str, list[dict]]] = {}
    for result in results:
        cell = cells.setdefault((result["workload"], result["method"]), {})
        cell.setdefault(result["program"], []).append(result)
    for (workload, method), programs in cells.items():
        ours = [r["seconds"] for r in programs["fedjax_mos"] if "seconds" in r]
        for program, runs in programs.items():
            good = [r for r in runs if "seconds" in r]
            where = f"| {workload} {method} | {program} |"
            if not good:
                out.append(f"{where} {runs[0]['error']} | | |")
                continue
            times = [r["seconds"] for r in good]
            middle = statistics.median(times)
            spread = f"{middle:.4g} ({min(times):.4g} to {max(times):.4g})"
            ratio = middle / statistics.median(ours)
            out.append(f"{where} {spread} | {ratio:.2f} | {good[-1]['loss']:.3f} |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--workloads", nargs="+", default=["W1", "W2", "W3", "W5", "W6"]
    )
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--install-only", action="store_true")
    args = parser.parse_args()
    for environment in {PROGRAMS[program][0] for program in args.programs} - {None}:
        try:
            python_of(environment)
        except subprocess.CalledProcessError as error:
            print(f"{environment}: {error}", file=sys.stderr)
    if args.install_only:
        return
    RESULTS.mkdir(exist_ok=True)
    results = []
    with open(RESULTS / "peers.jsonl", "w") as file:
        for _ in range(args.repeats):
            for workload in args.workloads:
                for program in args.programs:
                    for method in methods_of(program, workload):
                        result = measured(program, workload, method)
                        results.append(result)
                        print(json.dumps(result), file=file, flush=True)
                        print(json.dumps(result), flush=True)
    text = table(results)
    print(text)
    head = (
        f"`python benchmarks/peers.py`, {os.cpu_count()} cores, {args.repeats} "
        "repeats: medians and extremes. The losses check that the work was done: all "
        "after as many rounds as `workloads.py` says, except Flower's, after fewer. "
        f"Versions: {versions()} and peers.jsonl."
    )
    (RESULTS / "peers.md").write_text(f"{head}\n\n{text}\n")


if __name__ == "__main__":
    assert set(ROUNDS["flower"]) <= set(WORKLOADS)
    main()
