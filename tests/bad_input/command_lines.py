"""Command lines of every command that trains or tells, drawn from the pools."""

import random
from typing import Any

from tests.bad_input.harness import Input
from tests.bad_input.pools import ALGORITHMS, BIG, FIELDS, NAN_INF, Pool
from tests.bad_input.words import checked, drawn, experiment_words, flag, wrong_now


def run(rng: random.Random, command: str = "run") -> Input:
    """`run`, or `cite`, which reads the same experiment and stops before the data."""
    words, wrong, checks = experiment_words(rng, data=command == "run")
    if command == "run":
        for name, pool in _RUN.items():
            if rng.random() < 0.1:
                words += flag(rng, name, pool, wrong_now(rng), wrong)
    return Input(command, [command, *words], tuple(wrong), checked(checks))


_RUN = {
    "target": Pool(float, ("0.5", "1"), ("0", "-1", "1.01", "x", *NAN_INF)),
    "checkpoint_every": Pool(float, ("0", "60", "inf"), ("-1", "x", "nan", "-inf")),
    "track": Pool(str, ("csv", "parquet"), ("nope", "CSV", "csv,parquet", "../x")),
}


def cite(rng: random.Random) -> Input:
    """What to cite needs no data."""
    return run(rng, "cite")


def compare(rng: random.Random) -> Input:
    """Members, some of which may be wrong or the same."""
    words, wrong, _ = experiment_words(rng, method=False, own=False)
    names = rng.sample(ALGORITHMS, rng.randint(1, 3))
    members = [
        n + rng.choice(["", "/ucs", "/md", ":lr=0.1", "/acs:lr=0.2"]) for n in names
    ]
    if wrong_now(rng):
        bad, *told = rng.choice(_MEMBERS)
        members.insert(rng.randrange(len(members) + 1), bad)
        wrong.append(tuple(told))
    elif wrong_now(rng, 0.1):
        members.append(members[0])
        wrong.append((members[0].partition("/")[0].partition(":")[0],))
    words += ["--algorithms", *members]
    for name, pool in _COMPARE.items():
        if rng.random() < 0.3:
            words += flag(rng, name, pool, wrong_now(rng), wrong)
    if "--backend" in words and words[words.index("--backend") + 1] == "debug":
        wrong.append(("backend", "debug"))
    return Input("compare", ["compare", *words], tuple(wrong))


_MEMBERS = (
    ("nope", "algorithm", "nope"),
    ("fedavg/nope", "sampler", "nope"),
    ("fedavg/", "fedavg/"),
    ("fedavg:", "fedavg:"),
    ("/ucs", "/ucs"),
    ("fedavg:lr", "lr"),
    ("fedavg:lr=", "lr"),
    ("fedavg:lr=-1", "lr", "-1"),
    ("fedavg:lr=0.1,lr=0.2", "lr"),
    ("fedavg:lr=0.1,algorithm.lr=0.2", "lr"),
    ("fedavg:storm=0.1", "storm"),
    ("", "algorithms"),
)
_SEEDS = Pool(int, ("1", "3"), ("0", "-1", "x", "1.5", BIG, "2147483647"))
_COMPARE = {
    "seeds": _SEEDS,
    "seed": FIELDS["seed"]._replace(good=("0", "2147480000")),
    "target": _RUN["target"],
    "track": _RUN["track"],
    "sampler": FIELDS["sampler"],
}


def sweep(rng: random.Random) -> Input:
    """Lists, ranges and points."""
    words, wrong, _ = experiment_words(rng, method=False, own=False)
    words += ["--algorithm", "fedmos"]
    if "--cohorts" in words:
        wrong.append(("cohorts",))
    if "--seeds" not in words and rng.random() < 0.4:
        words += flag(rng, "seeds", _SEEDS, wrong_now(rng), wrong)
    ranged = rng.random() < 0.4
    for text, told in drawn(rng, _RANGES if ranged else _LISTS, rng.randint(1, 2)):
        words += ["--over", text]
        wrong += [told] if told else []
    if ranged:
        draws = Pool(int, ("1", "4"), ("0", "-1", "x", "1.5", "100000000", BIG))
        words += flag(rng, "random", draws, wrong_now(rng), wrong)
    if rng.random() < 0.3:
        for text, told in drawn(rng, _POINTS, rng.randint(1, 2)):
            words += ["--point", text]
            wrong += [told] if told else []
    for name, pool in _SWEEP.items():
        if rng.random() < 0.15:
            words += flag(rng, name, pool, wrong_now(rng), wrong)
    return Input("sweep", ["sweep", *words], tuple(wrong))


# What an axis may be, and what its message must name where it is wrong.
_LISTS: tuple[tuple[str, tuple[Any, ...] | None], ...] = (
    ("lr=0.1,0.2", None),
    ("storm=0.1,0.9", None),
    ("prox=0", None),
    ("server_momentum=0.5,0.6", None),
    ("lr=0.1,0.1", ("lr", "twice")),
    ("lr=0.1,-1", ("lr", "-1")),
    ("storm=2", ("storm", "2")),
    ("nothing=1", ("nothing",)),
    ("lr=", ("lr",)),
    ("lr", ("lr",)),
    ("=1", ("=1",)),
    ("lr=a,b", ("lr", "a")),
    ("cohort=0", ("cohort", "0")),
    ("cohort=2.5", ("cohort", "2.5")),
    ("rounds=5,x", ("rounds", "x")),
    ("held_out=2", ("held_out", "2")),
    ("seed=1,2", ("seed",)),
    ("seeds=1,2", ("seeds",)),
    ("backend=debug", ("backend", "debug")),
    ("lr=1e39", ("lr", "1e+39")),
)
_RANGES: tuple[tuple[str, tuple[Any, ...] | None], ...] = (
    ("lr=log:0.01:1", None),
    ("storm=uniform:0:1", None),
    ("prox=uniform:0:0.1", None),
    ("lr=log:0:1", (("lr", "range"), "0")),
    ("lr=log:1:0.1", (("lr", "range"), "0.1")),
    ("lr=log:0.1", ("lr", "0.1")),
    ("lr=log:a:b", ("lr", "a")),
    ("lr=uniform:nan:1", (("lr", "range"), "nan")),
    ("lr=uniform:-2:-1", ("lr", "-1")),
    ("lr=log:1e39:1e40", ("lr", "e+")),
)
_POINTS: tuple[tuple[str, tuple[Any, ...] | None], ...] = (
    ("first_batch=full", None),
    ("first_batch=step", None),
    ("first_batch=half", ("first_batch", "half")),
    ("micro_batch=0", ("micro_batch", "0")),
    ("micro_batch=4,micro_batch=8", ("micro_batch",)),
    ("nothing=1", ("nothing",)),
    ("first_batch", ("first_batch",)),
)
_SWEEP = {
    "width": Pool(int, ("1", "2"), ("0", "-1", "x", "1.5")),
    "metric": Pool(str, ("valid_loss", "test_accuracy"), ("", "nope", "loss")),
    "target": _RUN["target"],
}


def search(rng: random.Random) -> Input:
    """Lists and ranges as of a sweep, and how they are halved."""
    swept = sweep(rng)
    words, wrong = ["search", *swept.call[1:]], [*(swept.wrong or ())]
    if "--stop-at" in words:
        wrong.append(("stop_at",))
    for name, pool in _SEARCH.items():
        if rng.random() < 0.2:
            words += flag(rng, name, pool, wrong_now(rng), wrong)
    if rng.random() < 0.1:
        words.append("--all")
        wrong.append(("--all takes",))
    return Input("search", words, tuple(wrong))


_SEARCH = {
    "eta": Pool(int, ("2", "4"), ("1", "0", "-1", "x", "1.5")),
    "rungs": Pool(int, ("1",), ("0", "-1", "99", "x", "1.5")),
    "budget": Pool(float, ("1e9", "inf"), ("0", "-1", "x", "nan")),
    "unit": Pool(str, ("rounds", "gradients"), ("", "seconds")),
}


def tune(rng: random.Random) -> Input:
    """Numbers to tune, and how."""
    words, wrong, _ = experiment_words(rng, method=False, own=False, few=True)
    words += ["--algorithm", "fedmos"]
    for name, pool in _TUNE.items():
        if rng.random() < 0.35:
            words += flag(rng, name, pool, wrong_now(rng), wrong)
    if rng.random() < 0.2:
        text = rng.choice(("nope", "cohort", "first_batch"))
        words += ["--wrt", text]
        wrong.append((("no number", "no derivative"), text))
    return Input("tune", ["tune", *words], tuple(wrong))


_TUNE = {
    "objective": Pool(str, ("valid_loss", "test_loss"), ("", "nope", "test_accuracy")),
    "updates": Pool(int, ("1", "25"), ("0", "-1", "x", "1.5")),
    "seeds": Pool(int, ("1", "2"), ("0", "-1", "x", "1.5", "100000000")),
    "horizon": Pool(int, ("1", "3", "1000"), ("0", "-1", "x", "1.5", BIG)),
    "candidates": Pool(int, ("0", "8"), ("-1", "x", "1.5", "100000000", BIG)),
    "step_size": Pool(float, ("0.3", "1"), ("0", "-1", "x", "1e39", *NAN_INF)),
}


def words_only(rng: random.Random) -> Input:
    """What no command understands, and the commands that take next to nothing."""
    words, *told = rng.choice(_WORDS)
    return Input("words", words.split(" ") if words else [""], tuple(told))


_WORDS: tuple[tuple[Any, ...], ...] = (
    ("list",),
    ("list --json",),
    ("--version",),
    ("--help",),
    ("run --help",),
    ("run --help-all",),
    ("run --quiet --rounds 2",),
    ("run --quiet yes", ("yes",)),
    ("run --quiet --quiet", ("--quiet",)),
    ("list --quiet", ("--quiet",)),
    ("tune --schedule lr=rounds --schedule prox=rounds --rounds 3",),
    ("", ("command",)),
    ("runn", ("runn", "run")),
    ("list extra", ("extra",)),
    ("list --jsn", ("--jsn",)),
    ("run extra", ("extra",)),
    ("run --round 5", ("--round",)),
    ("run --rounds", ("--rounds",)),
    ("run --rounds 5 --rounds 6", ("--rounds",)),
    ("run --rounds=5 --rounds=5", ("--rounds",)),
    ("run --augment --no-augment", ("--augment",)),
    ("run --set lr=0.1 --set lr=0.2", ("lr",)),
    ("run --set lr=0.1 --set algorithm.lr=0.2", ("lr",)),
    ("run --set lr=0.1 --set fedmos.lr=0.1", ("lr",)),
    ("run --steps 5 --epochs 5", ("steps", "epochs")),
    ("run --set lr", ("--set", "lr")),
    ("run --set =", ("--set",)),
    ("run --set nothing=1", ("nothing",)),
    ("run --out=", ("--out",)),
    ("run --data-dir no --dataset mnist", ("data_dir", "no")),
    ("run --out /dev/null/x", ("out", "/dev/null/x")),
    ("run --out /dev/null", ("out", "/dev/null")),
    ("compare --out /proc/no/x", ("out", "/proc/no/x")),
    ("sweep --over lr=0.1 --out /dev/null", ("out", "/dev/null")),
    ("sweep --over lr=0.1 --set lr=0.2", ("lr",)),
    ("sweep --over lr=0.1 --over algorithm.lr=0.2", ("lr",)),
    ("sweep --over lr=0.1 --over lr=0.2", ("lr",)),
    ("sweep --point lr=0.1 --point lr=0.1", ("lr",)),
    ("sweep --seeds 100000000", ("seeds", "100,000,000")),
    ("run --set hidden=10000000000", ("mlp", "750,000,000,010", "GiB")),
    ("run --dataset synthetic --clients 2000000000", ("synthetic", "GiB")),
    ("tune --out /dev/null", ("out", "/dev/null")),
    ("tune --out /dev/null/x", ("out", "/dev/null/x")),
    ("compare --algorithms", ("algorithms", "none")),
    ("compare --algorithms --set lr=0.1", ("algorithms", "none")),
    ("search --all --random 100000000", ("100,000,000",)),
    ("reproduce",),
    ("reproduce nope", ("name", "nope")),
    ("reproduce fedmos-fig2 --seeds 0", ("seeds", "0")),
    ("reproduce fedmos-fig2 --parts nope", ("parts", "nope")),
    ("reproduce fedmos-fig2 --members nope", ("members", "nope")),
    ("reproduce fedmos-fig2 --rounds 0", ("rounds", "0")),
    ("reproduce fedmos-fig2 --scale huge", ("scale", "huge")),
    ("reproduce fedmos-fig2 --data-dir no", ("data_dir", "no")),
    ("run --uplink lag_worker --algorithm fedavg --rounds 5",),  # seen when traced
    ("run --sampler lag_contact --algorithm fedavg", ("lag_contact",)),
    ("data", (("get", "Missing"),)),
    ("data get", (("STR", "name"),)),
    ("data put mnist", ("put",)),
    ("data get nope", ("name", "nope")),
    ("data get mnist", ("mnist", "could not be fetched")),
    ("resume", (("PATH", "folder"),)),
    ("resume no", ("no",)),
    ("resume no --rounds x", ("rounds", "x")),
    ("plot", ("folders", "none")),
    ("plot no", ("no",)),
    ("plot no --kind nope", ("kind", "nope")),
    ("table no --form pdf", ("form", "pdf")),
    ("table", ("folders", "none")),
    ("table no", ("no",)),
    ("report", (("PATH", "folder"),)),
    ("report no", ("no",)),
)
