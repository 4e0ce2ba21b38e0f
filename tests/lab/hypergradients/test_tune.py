"""Tuning by gradient: it descends, stays in its box, and says what goes wrong."""

import signal

import jax
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos import cli
from fedjax_mos.lab.hypergradients import random_baseline as baseline
from fedjax_mos.lab.hypergradients import stability, tune
from fedjax_mos.lab.hypergradients.hypergrad import Hypergradient, runs
from fedjax_mos.lab.hypergradients.scales import flat
from fedjax_mos.lab.hypergradients.updates import Updates
from fedjax_mos.lab.run_folder import is_empty

TINY = {
    "algorithm": "fedavg",
    "sampler": "ucs",
    "clients": 8,
    "cohort": 3,
    "rounds": 3,
    "steps": 2,
    "batch_size": 4,
    "model": "logistic",
}
SLOW_START = fm.Experiment(**TINY, options={"lr": 0.002})
UPDATES = 4
BOX = {"lr": (1e-3, 3e-3)}


def quietly(experiment, *args, **options):
    """A tuning without a halving before it, unless it is asked for."""
    return fm.tune(experiment, *args, **{"candidates": 0, "progress": False} | options)


@pytest.fixture(scope="module")
def tuned():
    return quietly(SLOW_START, ("lr",), updates=UPDATES, bounds=BOX)


def test_it_descends_and_stays_in_its_box(tuned):
    """Steps uphill, or out of the bounds."""
    way = tuned.frame
    assert way["valid_loss"].is_monotonic_decreasing
    assert way["valid_loss"].iloc[-1] < way["valid_loss"].iloc[0]
    assert way["lr"].is_monotonic_increasing
    assert way["lr"].iloc[0] == pytest.approx(0.002, rel=1e-5)
    assert way["lr"].iloc[-1] == pytest.approx(BOX["lr"][1], rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"horizon": 0}, "horizon must be at least 1: got 0"),
        ({"candidates": 100_000_000}, "20,000 runs: got 100,000,000"),
        ({"seeds": 0}, "seeds must be at least 1: got 0"),
        ({"seeds": 100_000_000}, "100,000,000 seeds needs at least"),
        ({"bounds": {"no": (0, 1)}}, "bounds must be of numbers in wrt"),
    ],
    ids=str,
)
def test_what_is_refused_claims_no_folder(wrong, message, tmp_path):
    """A folder that a wrong argument has made useless for the right one."""
    with pytest.raises(ValueError, match=message):
        quietly(SLOW_START, ("lr",), out=tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_an_unstable_start_claims_no_folder(tmp_path, monkeypatch):
    """It is known after the first gradient only."""
    monkeypatch.setattr(stability, "LIMIT", 0.0)
    with pytest.raises(ValueError, match="must be stable"):
        quietly(SLOW_START, ("lr",), out=tmp_path)
    assert is_empty(tmp_path)


def test_the_best_point_is_an_experiment(tuned):
    """Numbers that the tuned experiment does not have."""
    best = tuned.frame["valid_loss"].idxmin()
    chosen = tuned.experiment.parts["algorithm"].spec.options
    assert chosen["lr"] == pytest.approx(tuned.frame["lr"][best], rel=1e-6)
    assert (
        chosen["server_lr"] == SLOW_START.parts["algorithm"].spec.options["server_lr"]
    )


@pytest.mark.usefixtures("wild")
def test_an_interrupt_keeps_the_updates(monkeypatch):
    """Ctrl-C in the last update must not cost the others."""
    add = Updates.add

    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)
        return add(*args)

    monkeypatch.setattr(Updates, "add", interrupted)
    found = quietly(SLOW_START, ("lr",), updates=UPDATES)
    assert found.frame["update"].tolist() == [0] and not found.complete


def test_cost_counts_rounds(tuned):
    """A gradient that is taken for one run in the comparison with a sweep."""
    one = 3 * runs("forward", {"lr": 0.1})
    assert one == 3 * 3
    made = len(tuned.frame)
    assert tuned.complete and 1 < made <= UPDATES
    assert tuned.frame["cost"].tolist() == [one * (i + 1) for i in range(made)]


def test_the_rival_costs_as_much_and_the_picture_shows_both(tuned, monkeypatch):
    """A comparison with a sweep of another size, or in another box."""
    asked = {}

    def sweep(experiment, points, **named):
        asked["points"] = points
        frame = pd.DataFrame(points).assign(configuration=range(len(points)))
        frame = frame.assign(seed=0, round=3, valid_loss=1.0, diverged=False)
        return fm.Cube(frame, ("lr",), True)

    monkeypatch.setattr(baseline, "sweep", sweep)
    cube = fm.random_baseline(SLOW_START, ("lr",), tuned, bounds=BOX)
    drawn = np.array([point["lr"] for point in asked["points"]])
    assert len(drawn) == 3 * len(tuned.frame) and len(set(drawn)) == len(drawn)
    assert (drawn >= BOX["lr"][0]).all() and (drawn <= BOX["lr"][1]).all()
    figure = tuned.trajectory(cube)
    labels = [t.get_text() for t in figure.axes[0].get_legend().get_texts()]
    assert labels[-2:] == ["best so far", "best so far, random sweep"]
    assert labels[0] == "start" and labels[-3] == "gradient"


def test_scales_follow_the_glossary():
    """A momentum above one, or a rate below zero, along the way."""
    experiment = fm.Experiment(rounds=1, options={"server_momentum": 0.0})
    names = ("lr", "storm", "prox", "server_momentum")
    drawn = pd.DataFrame(baseline.draws(experiment, names, 200))
    assert drawn[["storm", "server_momentum"]].max().max() < 0.99
    assert drawn.min().min() >= 1e-4 and drawn["lr"].max() > 1
    assert drawn["lr"].median() < 0.3  # even on the log scale: half below 0.03
    assert drawn["storm"].between(0.2, 0.8).mean() == pytest.approx(0.3, abs=0.1)


class Wild:
    """Gradients that point up to where the horizon is unstable."""

    def __init__(self, first=""):
        self.seen, self.first = [], first

    def __call__(self, *arguments):
        return self.at

    def at(self, named):
        lr = float(np.mean(flat(named["lr"])))
        self.seen.append(lr)
        unstable = self.first or ("wild" if lr > 0.1 else "")
        growth, slope = np.ones(1), jax.tree.map(lambda v: -np.ones_like(v), named)
        return Hypergradient(1 - lr, slope, 1.0, growth, growth, unstable, "forward")


@pytest.fixture
def wild(monkeypatch):
    made = Wild()
    monkeypatch.setattr(tune, "differentiator", made)
    return made


def test_it_turns_back_where_the_horizon_is_unstable(wild):
    """An unstable point's gradient that is followed, or its value that wins."""
    start = fm.Experiment(**TINY, options={"lr": 0.09})
    tuned = quietly(start, ("lr",), updates=4)
    first, second, third, _ = wild.seen
    assert second > 0.1 and first < third < second
    assert third == pytest.approx(np.sqrt(first * second), rel=1e-5)
    marked = tuned.frame["unstable"] != ""
    assert marked.tolist() == [lr > 0.1 for lr in wild.seen]
    assert tuned.hp["lr"] <= 0.1


@pytest.mark.usefixtures("wild")
def test_schedules_are_tuned(tmp_path):
    """One value per round is tuned, kept in the experiment, written and read."""
    rates = fm.Schedule([0.01, 0.02, 0.03])
    start = fm.Experiment(**TINY, options={"algorithm.lr": 0.5})
    tuned = quietly(start, {"lr": rates}, updates=2)
    found = tuned.experiment.parts["algorithm"].spec.hp["lr"]
    assert isinstance(found, fm.Schedule) and len(found) == TINY["rounds"]
    assert (found.values > rates.values).all()  # by other values than the start's
    assert list(tuned.experiment.options) == ["lr"]
    assert tuned.frame["lr"].iloc[0] == pytest.approx(0.02, rel=1e-5)
    tuned.write(tmp_path)
    again = fm.read(tmp_path)
    for one in (again.hp["lr"], again.experiment.options["lr"]):
        np.testing.assert_array_equal(one.values, found.values)


@pytest.mark.usefixtures("wild")
def test_a_factor_per_tensor_is_tuned():
    """A tree of numbers, one per parameter tensor, comes back into the experiment."""
    start = fm.Experiment(**TINY, options={"scale": 1.0, "lr": 0.01})
    tuned = quietly(start, ("lr", "scale"), updates=2)
    scale = tuned.experiment.parts["local"].spec.hp["scale"]
    leaves = jax.tree.leaves(scale)
    assert len(leaves) == 2 and all(type(leaf) is float for leaf in leaves)
    assert leaves == [float(v) for v in jax.tree.leaves(tuned.hp["scale"])]
    tuned.experiment.build()


def test_an_unstable_start_is_refused(wild):
    """A tuning that wanders about without any gradient."""
    wild.first = "it explodes"
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ValueError, match="start.*it explodes") as caught:
        quietly(SLOW_START, ("lr",))
    # Also while the traceback, as in a notebook, keeps the frames alive.
    assert caught.tb and signal.getsignal(signal.SIGINT) is before


def test_candidates_save_a_start_that_explodes():
    """A start that is refused although a halving would find a better one."""
    start = fm.Experiment(**TINY, options={"lr": 1e8})
    box = {"lr": (1e-2, 1e9)}
    tuned = quietly(start, ("lr",), updates=3, candidates=6, bounds=box)
    assert tuned.frame["unstable"].iloc[0] and tuned.hp["lr"] < 1e7
    assert np.isfinite(tuned.frame["valid_loss"].iloc[-1])


BAD = [
    ({"updates": 0}, ("updates", "got 0", "at least 1")),
    ({"bounds": {"storm": (0.1, 0.2)}}, ("bounds", "storm", "wrt", "lr")),
    ({"bounds": {"lr": (0.2, 0.1)}}, ("bounds of lr", "low < high", "0.2, 0.1")),
    ({"objective": "accuracy"}, ("objective", "valid_loss", "'accuracy'")),
    ({"candidates": -1}, ("candidates", "got -1", "at least 0")),
    ({"step_size": np.inf}, ("step_size", "finite", "inf")),
    ({"horizon": 0}, ("horizon", "at least 1", "got 0")),
    ({"schedules": {"lr": "steps:2"}}, ("schedule of lr", "segments:NUMBER", "steps")),
]


@pytest.mark.parametrize(("named", "fragments"), BAD)
def test_bad_input(named, fragments):
    """A mistake that ends in a traceback of the compiler."""
    with pytest.raises(ValueError) as error:
        quietly(SLOW_START, ("lr",), **named)
    for fragment in fragments:
        assert fragment in str(error.value)


@pytest.mark.slow
def test_a_number_without_gradient_is_refused():
    """Updates that cannot change anything."""
    experiment = fm.Experiment(**TINY, uplink="compressed")
    with pytest.raises(ValueError, match="fraction.*sweep it"):
        quietly(experiment, ("lr", "fraction"))


@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    """A file that the command promises is missing, or a number that it prints wrong."""
    out = tmp_path / "tuned"
    words = "tune --algorithm fedavg --clients 8 --cohort 3 --rounds 3 --updates 2"
    words += " --model logistic --wrt lr --set lr=0.01 --candidates 4"
    cli.main([*words.split(), "--out", str(out)])
    names = {"config.json", "trajectory.csv", "trajectory.png", "plan.json"}
    names |= {"updates", "search", "sweep", "winner.json"}
    seen = {path.name for path in out.iterdir() if path.name[0] != "."}
    assert seen == names
    tuned, said = fm.read(out), capsys.readouterr().out
    assert set(tuned.hp) == {"lr"} and f"{tuned.hp['lr']:.4g}" in said
    assert tuned.experiment.parts["algorithm"].spec.options["lr"] == tuned.hp["lr"]
    assert "random sweep of the same cost" in said
    assert len(pd.read_csv(out / "trajectory.csv")) == 2


def test_numbers_without_a_gradient_stay(monkeypatch, capsys):
    """What the objective does not depend on smoothly keeps its value, 0 included."""
    start = fm.Experiment(
        **TINY | {"algorithm": "fedadagrad"}, options={"b1": 0.0, "lr": 0.01}
    )

    class Flat(Wild):
        def at(self, named):
            found = super().at(named)
            slopes = {n: np.zeros_like(v) for n, v in named.items()}
            return found._replace(gradient=slopes | {"lr": found.gradient["lr"]})

    monkeypatch.setattr(tune, "differentiator", Flat())
    tuned = quietly(start, updates=2)
    assert tuned.hp["b1"] == 0 and "left alone" in capsys.readouterr().err


# ---- never worse, never lost ---------------------------------------------------------


class Rough(Wild):
    """A bowl on the log scale with waves; slopes of the waves point anywhere."""

    def __init__(self, seed):
        super().__init__()
        self.phase = np.random.default_rng(seed).uniform(0, 6, 4)

    def at(self, named):
        x = np.log(np.array([float(np.mean(flat(v))) for v in named.values()]))
        self.seen.append(x)
        waves = np.sin(40 * x + self.phase[: len(x)])
        value = float(((x + 2) ** 2 + 0.3 * waves).sum())
        slope = 2 * (x + 2) + 12 * np.cos(40 * x + self.phase[: len(x)])
        names = dict(zip(named, slope / np.exp(x), strict=True))
        unstable = "wild" if np.sin(7 * value) > 0.8 and len(self.seen) > 1 else ""
        sizes = np.ones(1)
        found = jax.tree.map(np.float32, names)
        return Hypergradient(value, found, 1.0, sizes, sizes, unstable, "forward")


@pytest.mark.parametrize("seed", range(12))
def test_it_never_returns_worse_than_its_start(monkeypatch, seed):
    """On a rough landscape the best visited point is returned, the start included."""
    rough, rng = Rough(seed), np.random.default_rng(seed)
    monkeypatch.setattr(tune, "differentiator", rough)
    rates = np.exp(rng.uniform(-6, 1, 2))
    start = fm.Experiment(
        **TINY, options=dict(zip(("lr", "server_lr"), rates, strict=True))
    )
    found = quietly(start, ("lr", "server_lr"), updates=15)
    way = found.frame
    usable = way["valid_loss"][way["unstable"] == ""]
    assert found.best == usable.min() <= way["valid_loss"].iloc[0]
    value = rough.at({n: found.hp[n] for n in ("lr", "server_lr")}).value
    assert value == pytest.approx(found.best, rel=1e-3, abs=1e-3)
    assert way["accepted"].sum() >= 1 and way["accepted"].iloc[0]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_real_runs_never_end_worse(seed):
    """The same with real runs: other starts, among them rates that are too large."""
    rng = np.random.default_rng(seed)
    rate = float(np.exp(rng.uniform(-6, 1)))
    start = fm.Experiment(**TINY, seed=seed, options={"lr": rate})
    found = quietly(start, ("lr",), updates=4, candidates=3 * (seed % 2))
    before, after = (
        fm.hypergrad(one, ("lr",)).value for one in (start, found.experiment)
    )
    assert after <= before and after == pytest.approx(found.best, rel=1e-4)


def test_a_start_at_zero_is_a_point_of_its_own(monkeypatch):
    """A momentum of zero that is moved to its bound, where the objective is worse."""

    class Rising(Wild):
        def at(self, named):
            found = super().at(named)
            return found._replace(value=float(np.mean(flat(named["server_lr"]))))

    monkeypatch.setattr(tune, "differentiator", Rising())
    start = fm.Experiment(**TINY, options={"server_lr": 0.0, "lr": 0.01})
    found = quietly(start, ("lr", "server_lr"), updates=3)
    assert found.hp["server_lr"] == 0 and found.best == 0
    assert found.frame["server_lr"].iloc[1] > 0


def test_resumed_equals_uninterrupted(tmp_path, monkeypatch):
    """A killed tuning computes updates again, or goes another way from there."""
    whole, first, second = Rough(1), Rough(1), Rough(1)
    monkeypatch.setattr(tune, "differentiator", whole)
    wanted = quietly(SLOW_START, ("lr",), updates=7)
    monkeypatch.setattr(tune, "differentiator", first)
    quietly(SLOW_START, ("lr",), updates=3, out=tmp_path)
    second.seen += first.seen  # as far as it knows
    monkeypatch.setattr(tune, "differentiator", second)
    found = quietly(SLOW_START, ("lr",), updates=7, out=tmp_path)
    assert len(first.seen) == 3 and len(second.seen) == len(whole.seen)
    same = wanted.frame.columns.drop("seconds")
    pd.testing.assert_frame_equal(found.frame[same], wanted.frame[same])
    assert found.hp == wanted.hp and found.experiment == wanted.experiment
    with pytest.raises(ValueError, match="same tuning.*seeds"):
        quietly(SLOW_START, ("lr",), updates=7, seeds=2, out=tmp_path)


@pytest.mark.usefixtures("wild")
def test_a_halving_chooses_the_start(monkeypatch):
    """Candidates that are not run, or whose winner is not tried."""
    from fedjax_mos.lab.hypergradients import start as begin

    asked = {}

    def search(experiment, points, **named):
        asked["points"], asked["experiment"] = points, experiment
        frame = pd.DataFrame(points).assign(configuration=range(len(points)), seed=0)
        frame = frame.assign(round=3, valid_loss=1.0, diverged=False)
        frame = frame.assign(bits_up=1, bits_down=1)
        frame.loc[2, "valid_loss"] = 0.5
        return fm.Search(frame, ("lr",), True, metric="valid_loss")

    monkeypatch.setattr(begin, "search", search)
    found = quietly(SLOW_START, ("lr",), updates=3, candidates=4)
    assert len(asked["points"]) == 5 and asked["points"][0] == {}
    winner = asked["points"][2]["lr"]
    assert found.frame["lr"].iloc[1] == pytest.approx(winner, rel=1e-4)
    one = 3 * runs("forward", {"lr": 0.1})
    assert found.frame["cost"].tolist()[:2] == [one, 2 * one + 5 * 3]
    assert found.frame["from"].tolist() == ["start", "halving", "gradient"]
    table = found.table()
    assert table.index.tolist() == ["start", "after halving", "best"]
    assert table["lr"].tolist()[:2] == found.frame["lr"].tolist()[:2]


@pytest.mark.usefixtures("wild")
def test_a_schedule_of_few_numbers_is_tuned():
    """A value per segment that moves by itself, or that the experiment does not get."""
    start = fm.Experiment(**TINY, options={"lr": 0.01})
    found = quietly(start, schedules={"lr": "segments:2"}, updates=3)
    values = found.experiment.parts["algorithm"].spec.hp["lr"].values
    assert len(values) == 3 and values[0] == values[1] and (values > 0.01).all()


@pytest.mark.thorough
def test_an_unstable_start_is_followed_over_a_window():
    """Rounds that do not contract leave no gradient, or one that is of no use."""
    wild = {**TINY, "rounds": 8, "model": "mlp"}
    start = fm.Experiment(**wild, options={"lr": 6.0, "hidden": (8,)})
    whole = fm.hypergrad(start, ("lr",))
    found = fm.hypergrad(start, ("lr",), horizon=1)
    assert found.value == pytest.approx(whole.value, rel=1e-3)
    assert found.rounds.tolist() == list(range(1, 9)) and found.growth.shape == (8,)
    again = fm.hypergrad(start, ("lr",), horizon=8)
    np.testing.assert_allclose(again.gradient["lr"], whole.gradient["lr"], rtol=1e-5)
