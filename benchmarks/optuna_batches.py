"""An Optuna study in batches of lanes: killed, continued, and every value checked.

    python benchmarks/optuna_batches.py

64 trials of FedAvg on `digits` (100 rounds), 16 at a time, in a process that is killed
while the third batch runs; another one continues the study. Then every trial that came
to the end is run as an experiment of its own. Needs the extra `optuna`. Writes
benchmarks/results/optuna_batches.md.
"""

import dataclasses
import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import jax
import pandas as pd

import fedjax_mos as fm

HERE = Path(__file__).parent
FOLDER = HERE / "work" / "optuna_batches"
TRIALS, BATCH, KILLED_IN = 64, 16, 2
BASE = fm.Experiment(algorithm="fedavg", sampler="ucs", rounds=100, eval_every=100)
OVER = {"lr": fm.Range(0.01, 3.0, log=True), "server_lr": fm.Range(0.3, 3.0, log=True)}
_COMPILED = "/jax/core/compile/backend_compile_duration"


def study(kill: bool, compiled) -> None:
    """The whole study, or as far as the batch in which the process is killed."""
    os.environ["XDG_CACHE_HOME"] = str(FOLDER.with_name("optuna_cache"))
    fm.use_all_cores()

    def listen(event, duration, fun_name="", **_):
        if event == _COMPILED:
            print(f"{fun_name} compiled in {duration:.2f} s")
            compiled.value += "block" in fun_name
        batches = FOLDER / "batches"
        if kill and batches.is_dir() and len(list(batches.iterdir())) > KILLED_IN:
            os.kill(os.getpid(), signal.SIGKILL)

    jax.monitoring.register_event_duration_secs_listener(listen)
    fm.optuna_study(BASE, FOLDER, trials=TRIALS, batch=BATCH, progress=False, **OVER)


def in_a_process(kill: bool) -> tuple[int, int]:
    """Exit code and compiled blocks."""
    context = multiprocessing.get_context("spawn")
    compiled = context.Value("i", 0)
    process = context.Process(target=study, args=(kill, compiled))
    process.start()
    process.join()
    return process.exitcode, compiled.value


def main() -> None:
    import optuna

    for folder in (FOLDER, FOLDER.with_name("optuna_cache")):  # nothing is compiled
        shutil.rmtree(folder, ignore_errors=True)
    killed, first = in_a_process(kill=True)
    assert killed == -signal.SIGKILL, killed
    storage = f"sqlite:///{FOLDER.absolute() / 'study.db'}"
    before = optuna.load_study(study_name="fedjax_mos", storage=storage).trials
    done = sum(trial.state.is_finished() for trial in before)
    ended, second = in_a_process(kill=False)
    assert ended == 0, ended
    trials = optuna.load_study(study_name="fedjax_mos", storage=storage).trials
    complete = [t for t in trials if t.state == optuna.trial.TrialState.COMPLETE]
    fm.use_all_cores()
    rows = []
    for trial in complete:
        own = dataclasses.replace(BASE, options=trial.params).run(1, progress=False)
        alone = float(own.frame["valid_accuracy"].iloc[-1])
        rows.append(trial.params | {"trial": trial.value, "own run": alone})
    table = pd.DataFrame(rows)
    apart = (table["trial"] - table["own run"]).abs().max()
    text = (
        "# An Optuna study in batches of lanes\n\n"
        f"{TRIALS} trials, {BATCH} at a time; killed with {done} finished, continued "
        f"to {len(trials)}, of which {len(complete)} came to the end and the others "
        f"were pruned. Blocks compiled: {first} before the kill, {second} after it "
        f"(one structure). Largest difference between a trial's value and that "
        f"experiment's own run: {apart:.2g} of the accuracy. jax {jax.__version__}, "
        f"optuna {optuna.__version__}. Repeat with `python "
        "benchmarks/optuna_batches.py`.\n\n"
        f"```\n{table.to_string(index=False, float_format='{:.4g}'.format)}\n```\n"
    )
    print(text)
    (HERE / "results" / "optuna_batches.md").write_text(text)


if __name__ == "__main__":
    main()
