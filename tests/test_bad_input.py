"""Bad input ends before compilation, with a message that says what to change.

One table serves both ways in: a row is the arguments of an `Experiment`, from which the
command line is derived.
"""

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from fedjax_mos.data.sources import locate
from fedjax_mos.engine import block
from fedjax_mos.lab import catalog
from fedjax_mos.lab.result import check_history
from tests import problem

NAMES = {
    "algorithm": catalog.ALGORITHMS,
    "sampler": catalog.SAMPLERS,
    "partition": catalog.PARTITIONS,
    "model": catalog.MODELS,
}
SMALL = {"clients": 4, "cohort": 2}


def case(*fragments, **arguments):
    """Arguments of an Experiment and what the message must contain."""
    label = "-".join(f"{k}={v}" for k, v in arguments.items())
    return pytest.param(arguments, fragments, id=label.replace(" ", ""))


def option(*fragments, _=None, **options):
    """The same for options of components, which the command line takes by --set."""
    return case(*fragments, **(_ or {}), options=options)


CHOICE = {"sampler": "power_of_choice"}
RANGES = [
    option("lr", "-0.1", "(0, inf", lr=-0.1),
    option("lr", "0.0", "(0, inf", lr=0.0),
    option("lr", "nan", "number", lr=float("nan")),
    option("storm", "1.5", "[0, 1]", storm=1.5),
    option("prox", "-1.0", "[0, inf", prox=-1.0),
    option("server_momentum", "1.1", "[0, 1]", server_momentum=1.1),
    option("clip", "0.0", "(0, inf", clip=0.0),
    option("weight_decay", "-1.0", "[0, inf", weight_decay=-1.0),
    option("epoch_decay", "0.0", "(0, inf", epoch_decay=0.0),
    option("micro_batch", "got 0", "[1, ", micro_batch=0),
    option("first_batch", "'half'", "full", "step", first_batch="half"),
    option("weights", "'none'", "eq28", _={"sampler": "ucs"}, weights="none"),
    option("alpha", "0.0", "(0, inf", _={"partition": "dirichlet"}, alpha=0.0),
    option("alpha", "-1.0", "(0, inf", _={"partition": "quantity"}, alpha=-1.0),
    option("alpha", "-1.0", "[0, inf)", _={"dataset": "synthetic"}, alpha=-1.0),
    option("smallest", "got 0", "between 2 and 16", smallest=0),
    option("smallest", "got 4", "between 2 and 3", largest=3),
    option("classes_per_client", "got 11", "1 and 10", classes_per_client=11),
    option(
        "shards_per_client", "0", "1", _={"partition": "shards"}, shards_per_client=0
    ),
    case("cohort", "got 101", "100", cohort=101),
    case("cohort", "got 6", "5", clients=5, cohort=6),
    case("cohort", "got 31", "30", dataset="synthetic", cohort=31),
    case("cohort", "got 0", "at least 1", cohort=0),
    case("clients", "got 0", "at least 1", clients=0),
    case("clients", "got 1079", "1078", "examples", clients=1079),
    case("clients", "200", "1078", clients=200),  # 200 of 4..16 do not fit
    case("rounds", "got 0", "at least 1", rounds=0),
    case("rounds", "got -1", "at least 1", rounds=-1),
    case("steps", "got 0", "at least 1", steps=0),
    case("epochs", "got 0", "at least 1", epochs=0),
    case("steps", "epochs", "3", "2", "not both", steps=3, epochs=2),
    case("batch_size", "got 0", "at least 1", batch_size=0),
    case("eval_every", "got 0", "at least 1", eval_every=0),
    case("seed", "got -1", "[0, 2**31)", seed=-1),
    case("seed", "got 3000000000", "[0, 2**31)", seed=3_000_000_000),
    case("data_seed", "got -1", "negative", data_seed=-1),
    # Numbers that float32 would turn into infinity or zero.
    option("lr", "1e+39", "float32", lr=1e39),
    option("lr", "1e-46", "float32", lr=1e-46),
    option("horizon", "got 0", "[1, ", _={"algorithm": "lag"}, horizon=0),
    option("bits", "got 40", "[2, 16]", _={"uplink": "compressed"}, bits=40),
    option("micro_batch", "got 0", "[1, ", _=CHOICE, **{"sampler.micro_batch": 0}),
    option("candidates", "got 101", "clients, 100", _=CHOICE, candidates=101),
    option("alpha", "1e-300", _={"partition": "dirichlet_visiting"}, alpha=1e-300),
    option("smallest", "'1.5'", "integer", smallest="1.5"),
    case("rounds", "got 2147483648", "2**31", rounds=2**31),
    case("batch_size", "got 99999999999", "2**31", batch_size=99999999999),
    case("pool", "got 101", "clients, 100", pool=101),
    case("stop_at", "nan", "finite", stop_at=float("nan")),
    case("stop_at", "got 2.0", "(0, 1]", "test_accuracy", stop_at=2.0),
    # What fits no machine is not even tried.
    option("GiB", "mlp of 750,000,000,010", "smaller model", hidden="10000000000"),
    case("GiB", "synthetic", "fewer", dataset="synthetic", clients=2_000_000_000),
]
UNKNOWN = [
    case("algorithm", "'fedmoss'", "did you mean fedmos?", algorithm="fedmoss"),
    case("sampler", "'acss'", "did you mean acs?", sampler="acss"),
    case("partition", "'shard'", "did you mean shards?", partition="shard"),
    case("model", "'mlpp'", "did you mean mlp?", model="mlpp"),
    case("digits", "npz:PATH", "'digit'", dataset="digit"),
    case("backend", "'vmaped'", "vmapped", backend="vmaped"),
    case("dataset", "'npz:'", "npz:PATH", dataset="npz:"),
    case("backend", "'chunked:0'", "chunked:SLOTS", backend="chunked:0"),
    case("backend", "'debug:2'", "debug", backend="debug:2"),
    option("'lrr'", "algorithm.lr", lrr=0.1),
    option("'fedavg.lr'", "algorithm.lr", **{"fedavg.lr": 0.1}),
    option("'alpha'", "algorithm.lr", alpha=0.1),
    option("lr", "'abc'", "a number", lr="abc"),
    option("clip", "'abc'", "a number", "none", clip="abc"),
    option("hidden", "'a,b'", hidden="a,b"),
    option("classes_per_client", "'1.5'", "an integer", classes_per_client="1.5"),
    option("iid", "'maybe'", "true or false", _={"dataset": "synthetic"}, iid="maybe"),
    option(
        "'alpha'",
        "ambiguous",
        "partition.alpha or dataset.alpha",
        _={"dataset": "synthetic", "partition": "dirichlet"},
        alpha=0.5,
    ),
]
FILES = [
    case("y_train", "example 3", "-1", "[0, 3]", dataset="negative", **SMALL),
    case("x_train", "example 7", "NaN", dataset="nan", **SMALL),
    case("y_train", "(30,)", "[40]", dataset="short", **SMALL),
    case("x_test", "(4, 4, 1)", "(8, 8, 1)", dataset="mixed", **SMALL),
    case("natural", "id per example", partition="natural"),
    case("x", "images", "64", dataset="flat", augment=True, **SMALL),
    case(model="fedmos_mnist_cnn"),  # the second convolution has no pixels left
]
TABLE = RANGES + UNKNOWN + FILES


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Small npz files with one thing wrong in each."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (40, 8, 8, 1), dtype=np.uint8)
    y = np.arange(40) % 4
    negative = np.where(np.arange(40) == 3, -1, y)
    spoiled = (x / 255).astype(np.float32)
    spoiled[7, 0, 0, 0] = np.nan
    flat = (x / 255).astype(np.float32).reshape(40, 64)
    rows = {
        "negative": (x, negative, x, y),
        "nan": (spoiled, y, x / 255, y),
        "short": (x, y[:30], x, y),
        "mixed": (x, y, x[:, :4, :4], y),
        "flat": (flat, y, flat, y),
    }
    folder = tmp_path_factory.mktemp("stored")
    for name, row in rows.items():
        keys = ("x_train", "y_train", "x_test", "y_test")
        np.savez(folder / name, **dict(zip(keys, row, strict=True)))
    return {name: f"npz:{folder}/{name}.npz" for name in rows}


@pytest.fixture
def nothing_compiles(monkeypatch):
    """Fails a test whose run gets as far as the compiler."""

    def compiled(*args, **kwargs):
        raise AssertionError("compiled before the input was checked")

    monkeypatch.setattr(block, "_jitted", compiled)


def resolved(arguments, stored):
    dataset = arguments.get("dataset")
    return arguments | ({"dataset": stored[dataset]} if dataset in stored else {})


def command_line(arguments):
    """`Experiment(**arguments)` as the words after `fedjax-mos run`."""
    words = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if name == "options":
            words += [w for k, v in value.items() for w in ("--set", f"{k}={v}")]
        else:
            words += [flag] if value is True else [flag, str(value)]
    return words


def failed(capsys, *words):
    """The message of a command that must end with status 2."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(words))
    out, err = capsys.readouterr()
    assert exit_.value.code == 2
    assert "Traceback" not in out + err
    assert not out
    return err


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize(("arguments", "fragments"), TABLE)
def test_experiment(arguments, fragments, stored):
    """A wrong argument that trains, or whose message does not say what to change."""
    with pytest.raises(ValueError) as error:
        fm.Experiment(**resolved(arguments, stored)).run(progress=False)
    missing = [f for f in fragments if f not in str(error.value)]
    assert not missing, str(error.value)


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize(("arguments", "fragments"), TABLE)
def test_command_line(arguments, fragments, stored, capsys, tmp_path, monkeypatch):
    """The same at the command line: a traceback, or another exit status than 2."""
    monkeypatch.chdir(tmp_path)
    message = failed(capsys, "run", *command_line(resolved(arguments, stored)))
    missing = [f for f in fragments if f not in message]
    assert not missing, message


@pytest.mark.parametrize("kind", NAMES)
def test_unknown_name_lists_what_exists(kind):
    """A typing error that leaves one guessing which names there are."""
    with pytest.raises(ValueError) as error:
        fm.Experiment(**{kind: "qqq"})
    for name in ("'qqq'", *NAMES[kind]):
        assert name in str(error.value)


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("setting", ["lr", "lr=", "=0.1", "="])
def test_malformed_setting(setting, capsys):
    """A --set without a name or a value that is taken for something else."""
    message = failed(capsys, "run", "--set", setting)
    assert "--set" in message and repr(setting) in message and "name=value" in message


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (["--algorithms", "fedmos", "--sampler", "abd"], ["'abd'", "acs"]),
        (["--algorithms", "fedmos/ucs", "--sampler", "abd"], ["'abd'", "acs"]),
        (["--algorithms", "fedmo/acs"], ["'fedmo'", "did you mean fedmos?"]),
        (["--algorithms", "fedmos/abc"], ["'abc'", "acs"]),
        (["--seeds", "0"], ["seeds", "0", "at least 1"]),
        (["--seed", "-1"], ["seed", "-1"]),
        (["--cohort", "101"], ["cohort", "101", "100"]),
        (["--set", "nothing=1"], ["'nothing'", "algorithm.lr"]),
        (["--set", "fedavg.storm=1"], ["'fedavg.storm'"]),
        (["--set", "fedavg.lr=-1"], ["lr", "-1", "(0, inf"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else value,
)
def test_compare(words, fragments, capsys, tmp_path, monkeypatch):
    """A comparison that starts although one of its members cannot run."""
    monkeypatch.chdir(tmp_path)
    message = failed(capsys, "compare", *words)
    missing = [f for f in fragments if f not in message]
    assert not missing, message


@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        ("run --rounds 5 --rounds 6", ("--rounds", "once")),
        ("run --augment --no-augment", ("--augment", "once")),
        ("run --set lr=0.1 --set lr=0.2", ("lr", "twice", "0.1", "0.2")),
        ("run --uplink=", ("--uplink", "empty")),
        ("run --checkpoint-every nan", ("checkpoint_every", "nan")),
        ("compare --seed 2147483647 --seeds 2", ("seed + seeds", "2**31")),
        ("compare --algorithms --set lr=0.1", ("algorithms", "got none")),
        ("compare --algorithms fedavg/", ("'fedavg/'", "ALGORITHM[/SAMPLER]")),
        ("compare --algorithms fedavg:", ("'fedavg:'", "ALGORITHM[/SAMPLER]")),
        ("compare --algorithms fedavg:lr=1 fedavg:algorithm.lr=1.0", ("same", ":lr=1")),
        ("compare --backend debug", ("backend", "debug", "5 seeds")),
        ("compare --seeds 1000000000", ("1,000,000,000 seeds", "GiB")),
        ("sweep --seeds 100000000", ("20,000 runs", "100,000,000 seeds")),
        ("sweep --random 100000000 --over lr=log:0.1:1", ("random", "100,000,000")),
        ("sweep --over lr=log:0.1:1", ("lr has a range", "by random= (--random)")),
        ("sweep --over lr=0.1 --set algorithm.lr=0.2", ("lr", "twice", "--set")),
        ("sweep --point lr=0.1,lr=0.2", ("--point lr", "twice")),
        ("sweep --over held_out=x", ("held_out", "'x'")),
        ("sweep --over backend=debug", ("backend", "debug")),
        ("tune --step-size inf", ("step_size", "inf")),
        ("tune --out /dev/null/x", ("out", "folder", "/dev/null/x")),
        ("tune --step-size 1e39", ("step_size", "1e+39", "float32")),
        ("cite --dataset nope", ("dataset", "'nope'")),
    ],
)
def test_what_was_lost_or_never_ended(words, fragments, capsys, tmp_path, monkeypatch):
    """An argument of which one value is dropped, or that runs until memory ends."""
    monkeypatch.chdir(tmp_path)
    message = failed(capsys, *words.split())
    missing = [f for f in fragments if f not in message]
    assert not missing, message


@pytest.mark.parametrize(
    "text",
    ["adam", "1,2", "global_norm()", "contrib()", "adam(learning_rate='a')", "(" * 300],
)
def test_optimizers_are_tried(text):
    """Any other function of optax, or text, that fails inside a compiled round."""
    with pytest.raises(ValueError, match="server_optimizer must be a call of optax"):
        fm.Experiment(algorithm="fedopt", options={"server_optimizer": text})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", "5"),
        ("rounds", 5.0),
        ("cohort", True),
        ("seed", 0.5),
        ("held_out", "0.2"),
        ("augment", "yes"),
        ("options", [1]),
        ("uplink", 5),
        ("sampler", [1]),
        ("uplink", ""),
    ],
)
def test_types(field, value):
    """A config.json, or a program, that gives a value of another type."""
    with pytest.raises(
        ValueError, match=f"{field} must .*got {re.escape(repr(value))}"
    ):
        fm.Experiment(**{field: value})


def test_results_that_have_no_place(capsys, tmp_path, monkeypatch):
    """The same for the folder that a run would make itself."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").write_text("")
    message = failed(capsys, "run", "--rounds", "5")
    assert "out must be a folder that can be written: runs/" in message


def test_report_that_cannot_be_written(capsys, tmp_path, monkeypatch):
    """The system's own words, without the argument."""
    monkeypatch.setattr("fedjax_mos.lab.report.report", lambda result: "page")
    monkeypatch.setattr("fedjax_mos.lab.folders.read", lambda folder: None)
    message = failed(capsys, "report", str(tmp_path), "--out", "/dev/null/page.html")
    assert "out must be a file that can be written: /dev/null/page.html" in message


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        ("run --rounds many", "--rounds"),
        ("run --no-such-option", "--no-such-option"),
        ("run extra", "extra"),
        ("nothing", "nothing"),
        ("data put mnist", "get"),
        ("data get mnistt", "mnistt"),
    ],
)
def test_command_that_does_not_parse(words, fragment, capsys):
    """A command line that is half understood."""
    assert fragment in failed(capsys, *words.split())


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize("dataset", ["mnist", "cifar10", "tiny_imagenet"])
def test_missing_files(dataset, capsys, tmp_path, monkeypatch):
    """Minutes of retries, or no word on how to get the data set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDJAX_MOS_DATA", raising=False)
    monkeypatch.setattr(locate, "SYSTEM", tmp_path / "system")
    start = time.perf_counter()
    message = failed(capsys, "run", "--dataset", dataset)
    assert time.perf_counter() - start < 5
    assert f"fedjax-mos data get {dataset}" in message
    assert str(tmp_path / "cache") in message
    with pytest.raises(FileNotFoundError, match=f"data get {dataset}"):
        fm.datasets.load(dataset)


@pytest.mark.usefixtures("nothing_compiles")
@pytest.mark.parametrize(
    ("words", "fragments"),
    [
        (["--dataset", "npz:no.npz"], ["no.npz"]),
        (["--dataset", "folder:no"], ["no folder no"]),
        (["--dataset", "tfds:no_such_set"], ["no_such_set", "tfds build"]),
        (["--dataset", "mnist", "--data-dir", "no"], ["data_dir", "'no'"]),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else value,
)
def test_missing_path(words, fragments, capsys, tmp_path, monkeypatch):
    """A mistyped path that the message does not repeat."""
    monkeypatch.chdir(tmp_path)
    message = failed(capsys, "run", *words)
    missing = [f for f in fragments if f not in message]
    assert not missing, message


def test_no_traceback_in_a_process(tmp_path):
    """The console script lets an exception through that main() would have shown."""
    script = Path(sys.executable).with_name("fedjax-mos")
    done = subprocess.run(
        [script, "run", "--set", "lr=-1"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    first, last = done.stderr.splitlines()
    assert first == "starting JAX"
    assert last.startswith("fedjax-mos: option lr must lie in")


# ---- arrays that do not come from an experiment --------------------------------------

X, Y = np.zeros((6, 2), np.float32), np.arange(6) % 3
WHOLE = fm.partitions.Partition(np.arange(6), np.array([2, 4]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:5]), "x has 6 rows, y 5"),
        ((np.where(X == 0, np.nan, X), Y), "x must be finite: example 0"),
        ((X, Y, WHOLE._replace(size=np.array([6, 0]))), "client 1 has none"),
        ((X, Y, WHOLE._replace(size=np.array([2, 3]))), "5 != 6"),
        ((X, Y, WHOLE._replace(order=np.arange(1, 7))), r"\[0, 5\].*\[1, 6\]"),
        ((X, Y, WHOLE._replace(order=np.arange(-1, 5))), r"\[0, 5\].*\[-1, 4\]"),
        ((X, Y, WHOLE._replace(order=np.arange(6.0))), "order .*integers.*float64"),
        ((X, Y, WHOLE._replace(size=np.array([2.0, 4]))), "size .*integers.*float64"),
        ((X, Y + 2**40), "y must fit int32: example 0"),
        ((X.astype("f8") + 1e39, Y), "x must fit float32: example 0"),
        ((X[:0], Y[:0]), "at least one example"),
    ],
)
def test_federate(arguments, message):
    """Examples that do not exist, or an empty client, deep inside a compiled round."""
    with pytest.raises(ValueError, match=message):
        fm.federate(*arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": Y - 1}, r"y_train must lie in \[0, 2\]: example 0 has label -1"),
        ({"classes": 2}, r"y_train must lie in \[0, 1\]: example 2 has label 2"),
        ({"classes": 1}, "classes must be at least 2: got 1"),
        ({"y_test": Y[:5]}, r"y_test must have shape \[6\]"),
        (
            {"y_train": Y / 2, "classes": 3},
            "y_train must hold integer labels: got dtype float64",
        ),
        ({"x_train": X + np.inf}, "x_train must be finite: example 0"),
        ({"y_train": Y + 2**32}, "y_train must fit int32: example 0"),
        ({"classes": 3.5}, "classes must be an integer: got 3.5"),
        ({"x_test": X[:, :1]}, r"x_test must have the shape.*got \(1,\)"),
        ({"groups": Y[:5]}, r"groups must hold one integer per training example"),
        ({"mean": 0.0, "std": 0.0}, "std must be positive"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_arrays(changes, message):
    """Labels or inputs that would index outside the logits or spread NaN."""
    given = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y}
    with pytest.raises(ValueError, match=message):
        fm.arrays(**(given | changes))


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("seed", "0", "seed must be an integer: got '0'"),
        ("seed", 0.5, "seed must be an integer: got 0.5"),
        ("seed", -1, "seed must be between 0"),
        ("clients", True, "clients must be an integer: got True"),
        ("labels", list("abcdef"), "labels must be .* integers: got .*dtype <U1"),
        ("alpha", 1e-310, "alpha must be at least 1.18e-38: got 1e-310"),
    ],
)
def test_partitions(argument, value, message):
    """NumPy's own complaint, or draws that never end because all weights are zero."""
    given = {"labels": Y, "clients": 2, "seed": 0, argument: value}
    with pytest.raises(ValueError, match=message):
        fm.partitions.dirichlet_visiting(**given)


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ("round,seconds\n1,2\n", "columns bits_up, bits_down, diverged"),
        ("round,bits_up,bits_down,seconds,diverged\nx,1,1,1,False\n", "column round"),
        ("round,bits_up,bits_down,seconds,diverged\n1,1,1,1,maybe\n", "diverged"),
    ],
)
def test_histories(history, message, tmp_path):
    """A history that was cut or changed, and fails where it is shown."""
    with pytest.raises(ValueError, match=message):
        check_history(pd.read_csv(io.StringIO(history)), tmp_path / "history.csv")


def test_folders_with_damaged_files(tmp_path):
    """A nested or changed file that ends in a traceback."""
    (tmp_path / "config.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="holds no results.*nested too deeply"):
        fm.read(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "run", "own": 5}')
    (tmp_path / "params.npz").write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(ValueError, match="holds no results"):
        fm.read(tmp_path)


def simulation(**changes):
    local = fm.local_work(
        fm.losses.mean_loss(problem.softmax_net), problem.cyclic(steps=1, batch_size=2)
    )
    numbers = {"lr": 0.1, "server_lr": 1.0} | changes
    return fm.simulation(
        fm.spec(fm.algorithms.fedavg, **numbers),
        local,
        fm.spec(fm.samplers.uniform),
        cohort=3,
    )


@pytest.mark.parametrize(
    ("hp", "message"),
    [
        ({"algorithm": {"lr": -1.0}}, r"algorithm.lr must lie in \(0, inf.*got -1"),
        ({"algorithm": {"lr": fm.Schedule([0.1, -2])}}, "algorithm.lr .*got .*-2"),
        ({"algorithm": {"momentum": 0.1}}, "no hyperparameter algorithm.momentum"),
        ({"server": {"lr": 0.1}}, "no hyperparameter server"),
    ],
)
def test_init(hp, message):
    """A sweep over numbers that nothing has checked or that nothing reads."""
    state = simulation().init
    with pytest.raises(ValueError, match=message):
        state(problem.softmax_params(), problem.data(), jax.random.key(0), hp)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: fm.samplers.uniform(problem.tools(0)),
            "cohort must be at least 1: got 0",
        ),
        (
            lambda: fm.samplers.multinomial(problem.tools(-1)),
            "cohort must be at least 1: got -1",
        ),
        (
            lambda: fm.samplers.adaptive(problem.tools(0)),
            "cohort must be at least 1: got 0",
        ),
        (lambda: fm.plans.with_replacement(0, 5), "steps must be at least 1: got 0"),
        (
            lambda: fm.plans.with_replacement(5, 0),
            "batch_size must be at least 1: got 0",
        ),
        (lambda: fm.plans.epochs(0, 5), "epochs must be at least 1: got 0"),
        (
            lambda: fm.spec(fm.algorithms.fedavg, learning=0.1),
            "no option 'learning'.*lr",
        ),
        (lambda: fm.backends.chunked(0), "0"),
    ],
)
def test_factories(build, message):
    """A component that is built wrong and fails only inside a round."""
    with pytest.raises(ValueError, match=message):
        build()
