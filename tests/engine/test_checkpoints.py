"""A run that is ended anywhere goes on as if nothing had happened, bit for bit."""

import contextlib
import dataclasses
import json
import os
import shutil
import signal
from functools import cache, partial
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine import checkpoints as module
from fedjax_mos.engine import run as loop
from fedjax_mos.engine.block import Block
from fedjax_mos.engine.checkpoints import Checkpoints
from fedjax_mos.engine.history import History
from fedjax_mos.folder_lock import alone
from tests import problem

KEY = jax.random.key(4)
ROUNDS = 23  # three blocks
WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
EVALUATE = fm.evaluator(fm.losses.measures(problem.softmax_net), 20)
ABOUT = {"what": {"lr": 0.3}, "data": "abc"}


class Death(BaseException):
    """The process ends here."""


@cache
def simulate(name):
    samplers = {"clustered": fm.spec(fm.samplers.clustered, every=4)}
    sampler = samplers.get(name, fm.spec(fm.samplers.adaptive))
    few = fm.channels.plain(fm.channels.top_k(0.3))
    up = {"compressed": fm.channels.error_feedback(few)}
    algorithm = fm.algorithms.scaffold if name == "rows" else fm.algorithms.fedmos
    return fm.simulation(
        fm.spec(algorithm, lr=0.1), WORK, sampler, cohort=3, uplink=up.get(name)
    )


def train(name="plain", folder=None, rounds=ROUNDS, every=4, lanes=False, about=ABOUT):
    """A run with a checkpoint after every block."""
    sim, data = simulate(name), problem.data()
    start = partial(sim.init, problem.softmax_params(), data)
    key = jax.random.split(KEY, 2) if lanes else KEY
    return fm.run(
        sim,
        data,
        jax.vmap(start)(key) if lanes else start(key),
        key,
        rounds,
        evaluate=EVALUATE,
        stores={"train": data},
        every=every,
        report=fm.report_cohort,
        progress=False,
        checkpoints=folder and Checkpoints(folder, about, every=0),
    )


@cache
def whole(name="plain", **options):
    """The same without an end."""
    return train(name, **options)


def same(got, expected):
    """States and histories, but for seconds, equal to the bit."""
    chex.assert_trees_all_equal(got[0], expected[0])
    ours, theirs = (f.drop(columns="seconds") for f in (got[1], expected[1]))
    assert list(ours) == list(theirs) and len(ours) == len(theirs)
    for column in ours:
        for a, b in zip(ours[column], theirs[column], strict=True):
            np.testing.assert_array_equal(a, b)
    seconds = got[1]["seconds"].to_numpy()
    assert (np.diff(seconds[: len(seconds) // 2]) >= 0).all()


def dies(monkeypatch, block):
    """The process ends in the block with this number."""
    advance, count = loop.advance, iter(range(100))

    def until(*args):
        if next(count) == block:
            raise Death
        return advance(*args)

    monkeypatch.setattr(loop, "advance", until)


def killed(monkeypatch, block, *args, **options):
    """A run that ends there; what comes after it has no trap."""
    with monkeypatch.context() as trap, contextlib.suppress(Death):
        dies(trap, block)
        train(*args, **options)


LONG = pytest.mark.thorough


@pytest.mark.parametrize(
    ("name", "lanes"),
    [
        ("rows", False),
        ("compressed", True),
        pytest.param("plain", False, marks=LONG),
        pytest.param("plain", True, marks=LONG),
        pytest.param("rows", True, marks=LONG),
        pytest.param("compressed", False, marks=LONG),
        pytest.param("clustered", False, marks=LONG),
        pytest.param("clustered", True, marks=LONG),
    ],
)
def test_resumed_runs_are_equal_to_the_bit(name, lanes, tmp_path, monkeypatch):
    """Server, rows, channels, samplers, host work and cohorts go on."""
    for block in (1, 1):  # killed twice, each time one block further
        killed(monkeypatch, block, name, tmp_path, lanes=lanes)
    same(train(name, tmp_path, lanes=lanes), whole(name, lanes=lanes))


def test_a_run_that_dies_before_the_first_checkpoint_begins_anew(tmp_path, monkeypatch):
    """Nothing is lost but what was never promised."""
    killed(monkeypatch, 0, folder=tmp_path)
    assert Checkpoints(tmp_path).latest(None) is None
    same(train(folder=tmp_path), whole())


def test_an_interrupt_saves_and_its_evaluation_does_not_enter(tmp_path, monkeypatch):
    """Ctrl-C evaluates for the reader; the run that goes on does not know of it."""
    add = History.add

    def interrupted(self, *args):
        add(self, *args)
        if self.rounds == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as trap:
        trap.setattr(History, "add", interrupted)
        _, frame = train(folder=tmp_path)
    assert len(frame) == 10 and np.isfinite(frame["train_loss"].iloc[-1])
    assert 10 % 4 != 0  # round 10 is none that a run evaluates
    same(train(folder=tmp_path), whole())


def test_more_rounds_go_on_from_the_end(tmp_path):
    """What was evaluated because it was the last round is not, when it no longer is."""
    _, short = train(folder=tmp_path, rounds=13)
    assert np.isfinite(short["train_loss"].iloc[-1])
    same(train(folder=tmp_path), whole())
    with pytest.raises(ValueError, match="rounds must be at least 23.*got 13"):
        train(folder=tmp_path, rounds=13)


def test_a_finished_run_computes_nothing(tmp_path, monkeypatch):
    """The same call again returns what is there."""
    first = train(folder=tmp_path)
    monkeypatch.setattr(loop, "advance", None)
    same(train(folder=tmp_path), first)


def steps(monkeypatch, tmp_path):
    """How often a checkpoint calls what may fail."""
    calls = []
    for owner, name in FAULTY:
        real = getattr(owner, name)

        def counted(*args, real=real, name=name, **options):
            calls.append(name)
            return real(*args, **options)

        monkeypatch.setattr(owner, name, counted)
    saved(tmp_path)
    return calls


def saved(folder, round=10):
    state = {"a": jnp.arange(3.0), "key": jax.random.key(1)}
    history = {"bits_up": np.ones((1, round), int)}
    Checkpoints(folder, ABOUT).save(round, state, history, ["train_loss"])
    return state


FAULTY = [
    (module, "save_state"),
    (module, "_hashes"),
    (np, "savez"),
    (os, "replace"),
    (shutil, "rmtree"),
    (Path, "write_text"),
    (Path, "mkdir"),
]


def failing_at(fault, count, real, error):
    """`real`, which fails when all such calls together number `fault`."""

    def failing(*args, **options):
        if next(count) == fault:
            raise error
        return real(*args, **options)

    return failing


@pytest.mark.parametrize("error", [OSError("No space left on device"), Death()])
def test_a_fault_at_any_step_of_a_checkpoint(error, tmp_path, monkeypatch, capsys):
    """Whichever step fails, or is the last of all, the checkpoint before is whole."""
    with monkeypatch.context() as counting:
        total = len(steps(counting, tmp_path / "count"))
    assert total >= 7
    for fault in range(total):
        folder, count = tmp_path / str(fault), iter(range(1000))
        before = saved(folder, 10)
        with monkeypatch.context() as trap, contextlib.suppress(Death):
            for owner, name in FAULTY:
                failing = failing_at(fault, count, getattr(owner, name), error)
                trap.setattr(owner, name, failing)
            saved(folder, 20)
        found, history, metrics = Checkpoints(folder, ABOUT).latest(before)
        assert history["bits_up"].shape[1] in (10, 20) and metrics == ["train_loss"]
        chex.assert_trees_all_equal(found, before)
        saved(folder, 30)  # leftovers are in nobody's way
        assert Checkpoints(folder, ABOUT).latest(before)[1]["bits_up"].shape[1] == 30


def test_every_damaged_file_is_noticed(tmp_path, capsys):
    """A flipped bit or a missing file sends the reader to the checkpoint before."""
    state = saved(tmp_path, 10)
    saved(tmp_path, 20)
    latest = tmp_path / "00000020"
    files = [path for path in latest.rglob("*") if path.is_file()]
    assert len(files) >= 4
    for path in files:
        content = path.read_bytes()
        for damaged in (content[:-1] + bytes([content[-1] ^ 1]), None):
            path.unlink() if damaged is None else path.write_bytes(damaged)
            assert Checkpoints(tmp_path, ABOUT).newest().name == "00000010"
            found = Checkpoints(tmp_path, ABOUT).latest(state)
            assert found[1]["bits_up"].shape[1] == 10
            assert "damaged" in capsys.readouterr().err
            latest.with_name("00000020.damaged").rename(latest)
            path.write_bytes(content)
    assert Checkpoints(tmp_path, ABOUT).latest(state)[1]["bits_up"].shape[1] == 20


def test_two_are_kept(tmp_path):
    """One more than is read, and no more."""
    for round in (10, 20, 30, 40):
        saved(tmp_path, round)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000030", "00000040"]


def test_another_run_is_refused_with_the_difference(tmp_path):
    """A folder holds one run."""
    state = saved(tmp_path)
    other = {"what": {"lr": 0.4}, "data": "abc"}
    with pytest.raises(ValueError, match=r"another run: what.lr was 0.3 and is 0.4"):
        Checkpoints(tmp_path, other).latest(state)


def test_what_a_checkpoint_does_not_say_is_the_default(tmp_path):
    """A checkpoint of an earlier version, refused because there are more fields now."""
    state = saved(tmp_path)
    for value, refused in ((1, False), (2, True)):
        now = Checkpoints(tmp_path, ABOUT | {"new": value}, unsaid={"new": 1})
        with (
            pytest.raises(ValueError, match="new")
            if refused
            else contextlib.nullcontext()
        ):
            assert now.of("any").latest(state) is not None


@pytest.mark.parametrize("aside", [True, False], ids=["", "in a read-only folder"])
def test_new_checkpoints_outlive_damaged_ones_of_later_rounds(
    aside, tmp_path, monkeypatch, capsys
):
    """Everything that a resumed run saves, deleted in favour of rubbish."""
    if not aside:
        monkeypatch.setattr(module, "_put_aside", lambda path: None)
    for round in (30, 40):
        state = saved(tmp_path, round)
        (tmp_path / f"{round:08}" / "history.npz").write_bytes(b"")
    assert Checkpoints(tmp_path, ABOUT).latest(state) is None
    saved(tmp_path, 10)
    saved(tmp_path, 20)
    found = Checkpoints(tmp_path, ABOUT).latest(state)
    assert found[1]["bits_up"].shape[1] == 20


def test_another_state_is_refused_by_name(tmp_path):
    """Numbers of one leaf read as those of another."""
    state = saved(tmp_path)
    for leaf in (jnp.arange(3), jnp.zeros((3, 1))):
        with pytest.raises(ValueError, match=r"\['a'\] was float32\[3\] and is"):
            Checkpoints(tmp_path, ABOUT).latest(state | {"a": leaf})


MADE = ["version", "jax", "platform", "number of devices", "layout"]


@pytest.mark.parametrize("name", [*MADE, "format"])
def test_another_version(name, tmp_path, capsys):
    """Another package or machine is said, another format is refused."""
    state = saved(tmp_path)
    (path,) = tmp_path.iterdir()
    about = json.loads((path / "about.json").read_text())
    where = about if name == "format" else about["made"]
    where[name] = 99 if name == "format" else "0.0.1"
    (path / "about.json").write_text(json.dumps(about))
    (path / "hashes.json").write_text(json.dumps(module._hashes(path)))
    if name == "format":
        with pytest.raises(ValueError, match="format 99"):
            Checkpoints(tmp_path, ABOUT).latest(state)
        return
    assert Checkpoints(tmp_path, ABOUT).latest(state)
    assert f"another {name}, 0.0.1" in capsys.readouterr().err


def test_short_runs_write_none(tmp_path):
    """A run that is over before the first checkpoint can be repeated in that time."""
    kept = Checkpoints(tmp_path / "none", every=60)
    assert not kept.wanted(interrupted=False, ended=True)
    assert kept.wanted(interrupted=True, ended=True)
    assert not kept.wanted(interrupted=False, ended=False)
    assert Checkpoints(tmp_path, every=0).wanted(interrupted=False, ended=False)


def test_another_key_or_another_start_is_refused(tmp_path):
    """The folder's run began elsewhere, or with other randomness."""
    sim, data = simulate("plain"), problem.data()
    state = sim.init(problem.softmax_params(), data, KEY)
    more = {"progress": False, "checkpoints": Checkpoints(tmp_path, every=0)}
    last, _ = fm.run(sim, data, state, KEY, 10, **more)
    with pytest.raises(ValueError, match="first was 0 and is 10"):
        fm.run(sim, data, last, KEY, 10, **more)
    with pytest.raises(ValueError, match="key was"):
        fm.run(sim, data, state, jax.random.key(9), 10, **more)


def test_other_data_or_numbers_are_refused(tmp_path, monkeypatch):
    """A folder given by its path goes on with the first call's state."""
    monkeypatch.setattr(Checkpoints, "wanted", lambda self, *args: True)
    sim, data = simulate("plain"), problem.data()
    state = sim.init(problem.softmax_params(), data, KEY)
    more = {"progress": False, "checkpoints": tmp_path}
    fm.run(sim, data, state, KEY, 10, **more)
    fm.run(sim, data, state, KEY, 10, **more)
    other = dataclasses.replace(data, x=7 * jnp.asarray(data.x))
    with pytest.raises(ValueError, match="data was .* and is"):
        fm.run(sim, other, state, KEY, 10, **more)
    works = fm.local_work(WORK.loss, fm.plans.with_replacement(20, 3))
    longer = fm.simulation(
        sim.specs["algorithm"], works, sim.specs["sampler"], cohort=3
    )
    with pytest.raises(ValueError, match="simulation was .* and is"):
        fm.run(longer, data, state, KEY, 10, **more)
    with pytest.raises(ValueError, match="every was 1 and is 2"):
        fm.run(sim, data, state, KEY, 10, every=2, **more)
    with alone(tmp_path), pytest.raises(ValueError, match="checkpoints must .* in use"):
        fm.run(sim, data, state, KEY, 10, **more)
    moved = sim.init(problem.softmax_params(), data, KEY, {"algorithm": {"lr": 0.9}})
    with pytest.raises(ValueError, match="start was .* and is"):
        fm.run(sim, data, moved, KEY, 10, **more)


def test_the_last_good_state_outlives_divergence(tmp_path, capsys):
    """Two checkpoints that are both of a state that is no number."""
    sim, data = simulate("plain"), problem.data()
    wild = {"algorithm": {"lr": fm.Schedule(np.where(np.arange(40) < 12, 0.1, 1e38))}}
    state = sim.init(problem.softmax_params(), data, KEY, wild)
    kept = Checkpoints(tmp_path, every=0)
    _, frame = fm.run(sim, data, state, KEY, 40, checkpoints=kept)
    assert frame["diverged"].any() and not frame["diverged"][:12].any()
    assert kept.newest() is not None and int(kept.newest().name) <= 12 + 1
    assert f"the last good checkpoint is {kept.newest()}" in capsys.readouterr().err


def test_half_precision_is_kept(tmp_path):
    """NumPy has no bfloat16: the history is resumed all the same."""
    history = History(lanes=False, first=0)
    half = jnp.full(10, 0.5, jnp.bfloat16)
    bits, yes = np.ones((10, 2), np.uint32), np.ones(10, bool)
    block = Block({"loss": half}, bits, bits, {}, (), yes)
    history.add(block, 10, yes)
    Checkpoints(tmp_path).save(10, {"a": half}, history.columns(), [])
    state, columns, _ = Checkpoints(tmp_path).latest({"a": half})
    again = History(lanes=False, first=0)
    again.restore(columns, [])
    again.add(block, 10, yes)
    assert again.frame()["local_loss"].tolist() == [0.5] * 20
    assert state["a"].dtype == jnp.bfloat16


@pytest.mark.thorough
def test_whatever_the_writer_of_states_says_the_run_goes_on(
    tmp_path, monkeypatch, capsys
):
    """A full disk is a ValueError to the library that writes arrays."""

    def full(path, state):
        path.mkdir()
        raise ValueError("OUT_OF_RANGE: no space left")

    monkeypatch.setattr(module, "save_state", full)
    same(train(folder=tmp_path), whole())
    assert "no checkpoint of round 10: OUT_OF_RANGE" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
