"""Sweeps: what shares a program, what is written when, and what is refused."""

import dataclasses
import json
import signal
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli, machine
from fedjax_mos.engine.history import History
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.lab.assembled import Assembled
from fedjax_mos.lab.stopping import LaneStop, stop_of
from fedjax_mos.lab.structure import hp_of, structure
from fedjax_mos.lab.sweeps import grid, lanes, members, piece_runs
from fedjax_mos.tree import bytes_of
from tests.lab.tiny import TINY

RATES = [0.1, 0.2, 0.4]
BUILD, RUN = fm.Experiment.build, Assembled.run


def sweep(experiment=TINY, *args, **options):
    return fm.sweep(experiment, *args, progress=False, **options)


def numbers(cube):
    return cube.frame.drop(columns="seconds")


@pytest.fixture
def runs(monkeypatch):
    """Widths of the pieces that are run."""
    widths = []

    def noted(made, state, key, *args, **options):
        widths.append(len(key))
        return RUN(made, state, key, *args, **options)

    monkeypatch.setattr(Assembled, "run", noted)
    return widths


@pytest.fixture
def built(monkeypatch):
    """Sweeps of TINY share one simulation, and so their programs."""
    monkeypatch.setattr(fm.Experiment, "build", lambda self, **_: assembled())


@cache
def assembled():
    return BUILD(TINY)


@cache
def whole():
    """Three rates, three seeds, one piece."""
    return sweep(lr=RATES, seeds=3)


# ---- what shares a program -----------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.usefixtures("built")
def test_pieces_share_one_program(programs, runs):
    """A compilation per piece, or a border between pieces that changes the numbers."""
    pieces = sweep(lr=RATES, seeds=3, width=6)
    assert runs == [5, 5] and programs() == 1  # the last one is filled up
    pd.testing.assert_frame_equal(numbers(pieces), numbers(whole()), rtol=1e-5)
    assert pieces.complete and pieces.axes == ("lr",)
    assert pieces.frame["lr"].tolist() == np.repeat(RATES, 6).tolist()
    assert pieces.frame["seed"].tolist() == [0, 0, 1, 1, 2, 2] * 3
    assert pieces.frame["round"].tolist() == [1, 2] * 9


@pytest.mark.thorough
def test_choices_are_groups(programs):
    """Choices that cannot share a program do, or floats are compiled one by one."""
    over = {"partition.alpha": [0.5, 5.0], "lr": RATES}
    cube = sweep(dataclasses.replace(TINY, partition="dirichlet"), **over)
    assert programs() == 2
    assert len(cube.cells()) == 6 and cube.axes == ("partition.alpha", "lr")
    losses = cube.frame.groupby(["partition.alpha", "lr"])["train_loss"].last()
    assert losses.nunique() == 6


@pytest.mark.thorough
def test_points_may_name_different_options():
    """A method's own number is refused because another method lacks it."""
    points = [
        {"algorithm": "fedavg", "lr": 0.2},
        {"algorithm": "fedprox", "lr": 0.2, "prox": 0.0, "server_lr": 1.0},
    ]
    cells = sweep(TINY, points, seeds=3).cells().sort_index()
    assert cells["algorithm"].tolist() == ["fedavg", "fedprox"]
    assert np.isnan(cells["prox"][0]) and cells["prox"][1] == 0
    assert cells["server_lr"].tolist() == [1.0, 1.0]  # fedavg's own is filled in
    same = whole().cells().query("lr == 0.2")["mean"].item()
    np.testing.assert_allclose(cells["mean"], same, rtol=1e-5)


def test_an_option_that_is_off_is_a_choice():
    """None among numbers is taken for one, or the numbers do not share a program."""
    tried = grid.configurations(None, {"clip": [None, 1.0, 2.0]}, None, 0)
    every = lanes.lanes(TINY, tried, 1, False)
    cut = lanes.pieces(every, None)
    assert [piece.lanes for piece in cut] == [[0], [1, 2]]
    assert [lane.label["clip"] for lane in every] == [None, 1.0, 2.0]


def test_a_sampler_keeps_no_rate_of_its_own():
    """A sampler that needs the step size keeps another one than the algorithm's."""
    tried = [{"lr": rate} for rate in (0.1, 0.2)]
    base = dataclasses.replace(TINY, algorithm="lag_ps")
    _, lane = lanes.lanes(base, tried, 1, False)
    hp = hp_of(lane.experiment, lane.experiment.build().sim)
    assert hp["algorithm"]["lr"] == 0.2 and set(hp["sampler"]) == {"smoothness"}


def test_data_that_are_given_are_one_group():
    """Runs on own data, or on files, that are compiled one by one."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 3)), np.arange(12) % 2
    data = fm.arrays(x, y, x, y)
    store = {"train": fm.federate(x, y, fm.partitions.iid(y, 6, seed=0))}
    parts, tools = fm.partitions.iid(y, 6, seed=0), fm.types.SamplerTools(2, None)
    for change in (
        {"dataset": data, "partition": "iid"},
        {"dataset": data, "partition": parts},
        {"dataset": store, "clients": None, "loss": fm.losses.cross_entropy},
        {"sampler": fm.samplers.uniform(tools), "uplink": fm.channels.identity()},
        {"model": fm.models.logistic(10), "backend": fm.backends.vmapped()},
    ):
        every = lanes.lanes(dataclasses.replace(TINY, **change), [{}], 3, False)
        every += lanes.lanes(
            dataclasses.replace(TINY, **change), [{"lr": 0.5}], 1, False
        )
        assert len({structure(lane.experiment) for lane in every}) == 1, change
    other = dataclasses.replace(TINY, dataset=fm.arrays(x, y, x, y), partition="iid")
    first = dataclasses.replace(other, dataset=data)
    assert structure(other) != structure(first)


def test_options_of_an_optimizer_are_swept():
    """The numbers of an optimizer are lanes of one program, by their nested name."""
    where = "server_optimizer.learning_rate"
    base = dataclasses.replace(
        TINY, algorithm="fedopt", options={"server_optimizer": "sgd(learning_rate=1.0)"}
    )
    tried = grid.configurations(None, {where: [0.5, 1]}, None, 0)
    every = lanes.lanes(base, tried, 1, False)
    assert [lane.label[where] for lane in every] == [0.5, 1.0]
    assert len({structure(lane.experiment) for lane in every}) == 1
    sim = every[0].experiment.build().sim
    found = [hp_of(lane.experiment, sim)["algorithm"] for lane in every]
    assert [hp["server_optimizer"]["learning_rate"] for hp in found] == [0.5, 1.0]
    texts = [f"{name}(learning_rate=0.1)" for name in ("sgd", "adam")]
    tried = grid.configurations(None, {"server_optimizer": texts}, None, 0)
    every = lanes.lanes(base, tried, 1, False)
    assert [lane.label["server_optimizer"] for lane in every] == texts
    assert len({structure(lane.experiment) for lane in every}) == 2


def test_what_looks_alike_is_told_apart():
    """Schedules with the same ends, or objects of one type, are not the same."""
    base = dataclasses.replace(TINY, rounds=3)
    early, late = fm.Schedule([0.3, 0.1, 0.1]), fm.Schedule([0.3, 0.3, 0.1])
    every = lanes.lanes(base, [{"lr": early}, {"lr": late}], 1, False)
    assert len(every) == 2 and len(lanes.pieces(every, None)) == 1
    tools = fm.types.SamplerTools(2, None)
    built = [fm.samplers.uniform(tools), fm.samplers.multinomial(tools)]
    every = lanes.lanes(base, [{"sampler": one} for one in built], 1, False)
    assert len(lanes.pieces(every, None)) == 2
    for same in ([{"lr": late}] * 2, [{"sampler": built[0]}] * 2):
        with pytest.raises(ValueError, match="given twice"):
            lanes.lanes(base, same, 1, False)


def test_a_swept_option_replaces_its_other_names():
    """A number that the experiment sets by another name wins over the sweep's."""
    base = dataclasses.replace(TINY, options={"algorithm.lr": 0.7})
    one = members.member(base, {"lr": 0.2})
    assert one.parts["algorithm"].spec.hp["lr"] == 0.2 and one.options == {"lr": 0.2}


def test_width_follows_the_state(monkeypatch):
    """A sweep of large models is no longer cut so that it fits memory."""
    large = dataclasses.replace(TINY, model="mlp", options={"hidden": (600,)})
    assert lanes.fitting(TINY) > 4 * lanes.fitting(large) > 4
    every = lanes.lanes(TINY, [{}], 9, False)
    room = lanes.budget() * 4 // lanes.fitting(TINY)
    monkeypatch.setattr(lanes, "budget", lambda: room)
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert [len(p.lanes) for p in lanes.pieces(every, None)] == [3, 3, 3]
    monkeypatch.setattr(jax, "device_count", lambda: 2)
    assert [p.width for p in lanes.pieces(every, None)] == [4, 4, 4]


# ---- lanes ---------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_diverging_lane_disturbs_no_other():
    """NaN of one lane reaches another, or the lane is not marked."""
    # Weights change by the factor 1 - 0.1 lr in every round.
    base = dataclasses.replace(TINY, rounds=10, options={"weight_decay": 0.1})
    calm, wild = (sweep(base, lr=[0.1, rate, 0.3], seeds=2) for rate in (0.2, 1e6))
    bad = wild.frame["lr"] == 1e6
    assert not np.isfinite(wild.frame["train_loss"][bad].iloc[-1])
    assert (wild.frame["diverged"] == bad).all() and not calm.frame["diverged"].any()
    others = numbers(wild)[~bad].to_numpy()
    np.testing.assert_array_equal(others, numbers(calm)[~bad].to_numpy())
    cells = wild.cells()
    assert cells["lr"].iloc[-1] == 1e6 and np.isnan(cells["mean"].iloc[-1])
    assert cells["diverged"].tolist() == [0, 0, 2] and wild.best()["lr"] != 1e6


@pytest.mark.slow
def test_a_diverging_lane_might_as_well_not_be_there():
    """The same in a program without that lane, for a method with clients' state."""
    base = fm.Experiment(algorithm="scaffold", rounds=20, options={"weight_decay": 0.1})
    wild = sweep(base, lr=[0.1, 1e6, 0.3], seeds=2)
    assert wild.frame["diverged"].any()
    others = numbers(wild)[wild.frame["lr"] != 1e6].drop(columns="configuration")
    without = numbers(sweep(base, lr=[0.1, 0.3], seeds=2))
    np.testing.assert_array_equal(others, without.drop(columns="configuration"))


def test_common_and_independent_seeds():
    """Configurations differ by luck, or do not when they are asked to."""
    tried = [{"lr": rate} for rate in RATES]
    base = dataclasses.replace(TINY, seed=5)
    common, apart = (lanes.lanes(base, tried, 2, flag) for flag in (False, True))
    assert [lane.experiment.seed for lane in common] == [5, 6, 5, 6, 5, 6]
    assert [lane.experiment.seed for lane in apart] == [5, 6, 7, 8, 9, 10]
    assert [lane.label["seed"] for lane in apart] == [5, 6, 7, 8, 9, 10]


# ---- disk and interrupts -------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    """Ctrl-C while the host waits for this block of rounds."""
    monkeypatch.setattr(Pace, "rounds", lambda self: 10)
    add, calls = History.add, []

    def when(block):
        def noted(self, *args):
            calls.append(args)
            if len(calls) == block:
                signal.raise_signal(signal.SIGINT)
            add(self, *args)

        monkeypatch.setattr(History, "add", noted)

    return when


@pytest.mark.usefixtures("built")
def test_goes_on_where_it_was_interrupted(tmp_path, runs, impatient):
    """An hour of finished pieces is lost, or half a piece passes for a whole one."""
    base = dataclasses.replace(TINY, rounds=13)  # two blocks
    options = {"lr": RATES, "width": 1, "out": tmp_path}
    impatient(3)
    cube = sweep(base, **options)
    assert not cube.complete and runs == [1, 1]
    assert cube.frame["lr"].unique().tolist() == [0.1]
    assert [path.name for path in (tmp_path / "pieces").iterdir()] == ["00000.parquet"]
    again = sweep(base, **options)
    assert again.complete and runs == [1, 1, 1, 1]
    pd.testing.assert_frame_equal(again.frame, fm.Cube.read(tmp_path).frame)
    assert len(again.frame) == 39 and again.frame.notna().all(axis=None)
    assert sweep(base, **options).complete and len(runs) == 4


@pytest.mark.usefixtures("built")
def test_the_piece_under_way_goes_on_from_its_checkpoint(tmp_path, impatient):
    """Rounds that were done before an interrupt are not done again."""
    base = dataclasses.replace(TINY, rounds=23)  # three blocks
    options = {"lr": RATES[:2], "width": 1, "out": tmp_path}
    impatient(5)
    assert not sweep(base, **options).complete
    kept = tmp_path / "checkpoints"
    assert [path.name for path in kept.iterdir()] == ["00001"]
    lengths, add = [], History.add
    with pytest.MonkeyPatch.context() as trap:
        trap.setattr(History, "add", lambda *a: lengths.append(a[2]) or add(*a))
        again = sweep(base, **options)
    assert lengths == [3]  # 20 of the second piece's rounds were done
    assert again.complete and not any(kept.iterdir())
    expected = sweep(base, lr=RATES[:2], width=1)
    pd.testing.assert_frame_equal(numbers(again), numbers(expected))


@pytest.mark.thorough
def test_lanes_stop_as_their_own_runs_would():
    """Whatever its neighbours do, a lane ends at its own target."""
    base = dataclasses.replace(TINY, rounds=60, eval_every=3, stop_at=0.35, steps=5)
    cube = sweep(base, lr=[0.001, 0.3, 0.05], width=3)
    ended = []
    for rate in (0.001, 0.3, 0.05):
        one = dataclasses.replace(base, options={"lr": rate}).run(progress=False)
        rows = cube.frame[cube.frame["lr"] == rate]
        assert rows["round"].tolist() == one.frame["round"].tolist()
        ours, theirs = rows["test_accuracy"], one.frame["test_accuracy"]
        np.testing.assert_allclose(ours, theirs, atol=0.02)
        ended.append(len(rows))
    assert ended[0] == 60 and ended[1] < 60
    assert cube.cells()["mean"].notna().all()


@pytest.mark.usefixtures("built")
def test_files_that_were_never_whole_are_nobodys(tmp_path):
    """A process that is killed while it writes leaves a folder that is resumed."""
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / ".partial-plan.json").write_text("{")
    options = {"lr": RATES, "width": 1, "out": folder}
    first = sweep(TINY, **options)
    (folder / "pieces" / ".partial-00001.parquet").write_bytes(b"half")
    (folder / "pieces" / "00001.parquet").unlink()
    pd.testing.assert_frame_equal(numbers(sweep(TINY, **options)), numbers(first))


def test_what_a_lane_does_after_its_own_end_is_not_its():
    """A lane that stopped did not diverge later, when its neighbours went on."""
    rows = [(lane, t, 0.9 if lane else 0.1, t > 15) for lane in (0, 1) for t in (5, 20)]
    history = pd.DataFrame(rows, columns=["lane", "round", "test_accuracy", "diverged"])
    history.attrs["ended"] = "done"
    piece = lanes.Piece(0, [4, 7], 2)
    found = piece_runs.own_rows(history, piece, LaneStop(stop_of(0.8, None)))
    assert found[found["lane"] == 7]["round"].tolist() == [5]
    assert found["diverged"].tolist() == [True, True, False]


@pytest.mark.usefixtures("built")
def test_an_interrupt_in_the_last_block_counts(runs, impatient):
    """Ctrl-C is swallowed when the run that it reaches is about to end."""
    impatient(2)
    cube = sweep(dataclasses.replace(TINY, rounds=13), lr=RATES, width=1)
    assert len(runs) == 1 and not cube.complete
    assert cube.frame["lr"].tolist() == [0.1] * 13


@pytest.mark.usefixtures("built")
def test_another_plan_is_refused(tmp_path):
    """Two sweeps in one folder, or somebody's files among the pieces."""
    tried = {"lr": RATES, "seeds": 3}
    base = dataclasses.replace(TINY, seed=3)
    sweep(base, **tried, out=tmp_path / "a")
    for other, word in (
        ({**tried, "seeds": 1}, "lanes"),
        ({**tried, "width": 1}, "pieces"),
    ):
        with pytest.raises(ValueError, match=f"same sweep.*{word}"):
            sweep(base, **other, out=tmp_path / "a")
    with pytest.raises(ValueError, match="same sweep.*experiment"):
        sweep(TINY, **tried, out=tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.tex").write_text("precious")
    with pytest.raises(FileExistsError, match="neither"):
        sweep(base, **tried, out=tmp_path / "b")
    plan = json.loads((tmp_path / "a" / "plan.json").read_text())
    assert len(plan["lanes"]) == 9 and plan["axes"] == ["lr"]


# ---- bad input -----------------------------------------------------------------------


BAD = [
    ({"lrr": [1]}, ("lrr", "algorithm.lr", "algorithm.server_lr")),
    ({"cohrt": [1]}, ("cohrt", "fields", "cohort")),
    ({"lr": []}, ("lr", "empty list")),
    ({"lr": 0.1}, ("lr", "list of values", "0.1")),
    ({"lr": "0.1"}, ("lr", "list of values", "0.1")),
    ({"lr": [0.1, -1]}, ("lr", "(0, inf", "-1")),
    ({"lr": ["fast"]}, ("lr", "a number", "fast")),
    ({"storm": [0.1]}, ("storm", "algorithm.lr")),
    ({"lr": [0.1, 0.1]}, ("lr", "0.1", "twice")),
    ({"lr": [0.1], "algorithm.lr": [0.2]}, ("algorithm.lr", "same option")),
    ({"seed": [1]}, ("seeds=",)),
    ({"options": [{}]}, ("options",)),
    ({"cohort": [2.5]}, ("cohort", "int", "2.5")),
    ({"cohort": [2, 7]}, ("cohort", "6", "7")),
    ({"clients": [10, 2000]}, ("clients", "1078", "2000")),
    ({"algorithm": ["fedavg", "sgd"]}, ("algorithm", "sgd", "fedprox")),
    ({"lr": fm.Range(0.1, 1)}, ("lr", "random=")),
    ({"lr": RATES, "random": 3}, ("random=3", "ranges")),
    ({"lr": fm.Range(0.1, 1), "random": 0}, ("random", "got 0")),
    ({"lr": fm.Range(-2, -1), "random": 2}, ("lr", "(0, inf")),
    ({"points": []}, ("points", "got none")),
    ({"points": [{"lr": 1.0}], "lr": RATES}, ("lr", "twice")),
    ({"seeds": 0}, ("seeds", "got 0")),
    ({"width": 0}, ("width", "got 0")),
]


@pytest.mark.parametrize(("over", "fragments"), BAD, ids=lambda v: str(v)[:40])
def test_bad_input(over, fragments, programs, monkeypatch):
    """A mistake that costs a compilation, or a message that does not help."""
    monkeypatch.setattr(Assembled, "run", None)
    with pytest.raises(ValueError) as error:
        sweep(**over)
    for fragment in fragments:
        assert fragment in str(error.value)
    assert programs() == 0


def test_only_experiments_are_swept():
    """A simulation made by hand is refused with a word on what to give instead."""
    made = assembled().sim
    for function in (fm.sweep, fm.hypergrad, fm.tune):
        with pytest.raises(ValueError, match="must be an fm.Experiment.*got Simul"):
            function(made)


@pytest.mark.usefixtures("built")
def test_short_schedules_cost_no_run(monkeypatch):
    """A schedule that ends too early is found before the first piece runs."""
    monkeypatch.setattr(Assembled, "run", None)
    rates = [fm.Schedule([0.1, 0.2]), fm.Schedule([0.1])]
    with pytest.raises(ValueError, match="2 rounds: got 1"):
        sweep(lr=rates)


def test_ranges_need_two_ends():
    """A range that nothing can be drawn from."""
    for low, high, log in ((1, 1, False), (2, 1, False), (0, 1, True)):
        with pytest.raises(ValueError, match="low < high"):
            fm.Range(low, high, log)


# ---- which configurations ------------------------------------------------------------


def test_draws_are_crossed_with_lists():
    """Methods get other draws, draws leave their range, or cannot be repeated."""
    over = {"lr": fm.Range(1e-4, 1, log=True), "storm": fm.Range(0.2, 0.3)}
    tried = grid.configurations(None, {"sampler": ["ucs", "md"]} | over, 200, 0)
    half = [{k: v for k, v in c.items() if k != "sampler"} for c in tried]
    assert half[:200] == half[200:] and len(tried) == 400
    rate, storm = (np.array([c[name] for c in half]) for name in over)
    assert 1e-4 < rate.min() < rate.max() < 1 and 0.4 < (rate < 1e-2).mean() < 0.6
    assert 0.2 < storm.min() < storm.max() < 0.3
    assert tried == grid.configurations(None, {"sampler": ["ucs", "md"]} | over, 200, 0)
    assert tried != grid.configurations(None, {"sampler": ["ucs", "md"]} | over, 200, 1)


def test_arrays_are_lists():
    """Numbers out of NumPy or JAX are refused or labelled as arrays."""
    for values in (np.array([0.5, 1.0]), jax.numpy.array([0.5, 1.0])):
        tried = grid.configurations(None, {"lr": values}, None, 0)
        assert tried == [{"lr": 0.5}, {"lr": 1.0}]
        assert type(tried[0]["lr"]) is float


def test_text_becomes_a_field():
    """Values of the command line reach an experiment as text."""
    fields = {"cohort": "3", "steps": "none", "augment": "True", "partition": "iid"}
    one = members.member(TINY, fields)
    assert (one.cohort, one.steps, one.augment, one.partition) == (3, None, True, "iid")
    assert members.member(TINY, {"model": "none"}).model is None


# ---- the command line ----------------------------------------------------------------


def test_values_on_the_command_line():
    """A grammar that takes a folder or a layout for a range."""
    words = ["lr=0.1,1", "backend=chunked:2,vmapped", "storm=uniform:0:1"]
    assert grid.parse_over(words) == {
        "lr": ["0.1", "1"],
        "backend": ["chunked:2", "vmapped"],
        "storm": fm.Range(0.0, 1.0),
    }
    for bad in ("lr", "lr=log:1", "lr=log:a:b", "lr=uniform:1:2:3"):
        with pytest.raises(ValueError, match="--over"):
            grid.parse_over([bad])


@pytest.mark.thorough
@pytest.mark.usefixtures("built")
def test_command(tmp_path, capsys, monkeypatch):
    """The command loses an option, a file or its place after an interrupt."""
    monkeypatch.setattr(machine, "use_all_cores", lambda: None)
    words = "sweep --algorithm fedavg --sampler ucs --clients 6 --cohort 2 --rounds 2"
    words += " --steps 1 --batch-size 4 --model logistic --set micro_batch=8 --seeds 3"
    words += " --point lr=0.1,clip=none --over server_lr=0.5,1,2 --target 0.05"
    for _ in range(2):  # the second time nothing is left to do
        cli.main([*words.split(), "--out", str(tmp_path)])
    assert f"results in {tmp_path}" in capsys.readouterr().out.splitlines()[-1]
    cube = fm.Cube.read(tmp_path)
    assert cube.axes == ("lr", "clip", "server_lr") and cube.complete
    assert sorted(cube.cells()["server_lr"]) == [0.5, 1, 2]
    assert (tmp_path / "cells.csv").exists() and (tmp_path / "heat_map.png").exists()
    for bad in ("lrr=1", "seeds=2"):
        with pytest.raises(SystemExit) as end:
            cli.main([*words.split(), "--over", bad, "--out", str(tmp_path)])
        assert end.value.code == 2 and "no option" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_sweep_is_not_resumed_with_other_data(tmp_path):
    """The pieces of one data set do not pass for those of another."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 2

    def on(x):
        data = fm.arrays(x[:40], y[:40], x[40:], y[40:])
        return fm.Experiment(
            algorithm="fedavg",
            dataset=data,
            model="logistic",
            clients=5,
            cohort=2,
            rounds=1,
        )

    sweep(on(x), lr=[0.1], out=tmp_path)
    with pytest.raises(ValueError, match="same sweep.*data"):
        sweep(on(x + 1), lr=[0.1], out=tmp_path)
    assert sweep(on(x), lr=[0.1], out=tmp_path).complete


def test_an_accelerator_s_memory_decides_the_width(monkeypatch):
    """Lanes that do not fit, or a large device that does a few lanes at a time."""
    one = fm.Experiment(clients=6, cohort=3, steps=2, batch_size=4)
    made = one.build(lanes=jax.device_count())
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    block, args = made.block(state, key)
    needs = block.lower(*args).compile().memory_analysis()
    size = bytes_of(state)
    # Everything of five lanes: two states each, working memory, what is sent back.
    sent = needs.output_size_in_bytes - needs.alias_size_in_bytes
    five = 5 * (2 * size + needs.temp_size_in_bytes + sent)
    whole = five + needs.argument_size_in_bytes - size
    for memory, count in ((whole, 5), (whole - 100, 4), (0, 1)):
        monkeypatch.setattr(
            "fedjax_mos.lab.sweeps.lanes.device_memory",
            lambda m=memory: -(-m * 10 // 9),
        )
        assert lanes.fitting(one) == count * jax.device_count()
