"""Own components of every kind, through everything that takes an experiment."""

import dataclasses
import json
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.types import (
    Channel,
    Cohort,
    Exchange,
    NonNegative,
    Sampler,
    SamplerTools,
    Unit,
    Wire,
)

CLIENTS, EACH, COHORT = 4, 5, 2


# ---- one component of each kind ------------------------------------------------------


def halfway(local, *, lr: NonNegative = 0.1, pull: Unit = 0.5):
    """Averaging that goes only part of the way."""
    algorithm = fm.algorithms.fedavg(local, lr=lr)
    (exchange,) = algorithm.exchanges

    def server(state, agg):
        moved = optax.tree.add_scale(state.params, pull, agg.mean)
        return state._replace(params=moved)

    exchanges = (Exchange(exchange.broadcast, exchange.client, server),)
    return fm.Algorithm(algorithm.init, exchanges)


def leading(tools, *, shift=0):
    """The same clients in every round."""

    def sample(state, view, key):
        ids = jnp.arange(tools.cohort) + shift
        ones = jnp.ones(tools.cohort)
        return Cohort(ids, ones / tools.cohort, ones > 0), state

    return Sampler(lambda view, key: (), sample)


def faded(*, keep: Unit = 0.25):
    """Messages that arrive weaker, at half the price."""

    def send(state, wire, key, context):
        value = optax.tree.scale(keep, wire.value)
        return Wire(value, (wire.bits // 2).astype(jnp.uint32)), state

    return Channel(lambda zeros: (), send)


def plane(outputs):
    """A linear model of two inputs, as functions."""

    def init(key, x):
        return {"a": jnp.ones((2, outputs)), "b": jnp.zeros((1, outputs))}

    def apply(params, x, key):
        return x["left"] @ params["a"] + x["right"] @ params["b"]

    return fm.models.Model(init, apply)


def distance(outputs, y):
    return (outputs[:, 0] - y) ** 2


def off(outputs, y):
    return jnp.abs(outputs[:, 0] - y)


def examples(count, seed):
    rng = np.random.default_rng(seed)
    x = {"left": rng.normal(size=(count, 2)), "right": rng.normal(size=(count, 1))}
    y = x["left"] @ [0.5, -1.0] + 2 * x["right"][:, 0]
    return jax.tree.map(np.float32, x), y.astype(np.float32)


def deal(labels, clients, seed):
    """Clients in the order of the examples."""
    each = len(labels) // clients
    return fm.partitions.Partition(np.arange(len(labels)), np.full(clients, each))


TRAIN, TEST = examples(CLIENTS * EACH, 0), examples(6, 1)
# One full batch per client and round: nothing is random.
ALL = fm.Experiment(
    algorithm=fm.spec(halfway, lr=0.2),
    sampler=leading,
    uplink=faded,
    model=plane,
    dataset=fm.arrays(*TRAIN, *TEST),
    partition=deal,
    loss=distance,
    metrics={"off": off},
    clients=CLIENTS,
    cohort=COHORT,
    rounds=2,
    epochs=1,
    batch_size=EACH,
)
OWN = ("algorithm", "sampler", "uplink", "partition", "model", "dataset")


def by_hand(lr=0.2, pull=0.5, keep=0.25, rounds=2):
    """The parameters that ALL must have in the end, in NumPy."""
    (x, y), w = TRAIN, np.array([1.0, 1.0, 0.0])
    inputs = np.concatenate([x["left"], x["right"]], axis=1).astype(float)
    for _ in range(rounds):
        moves = []
        for i in range(COHORT):
            rows = slice(EACH * i, EACH * (i + 1))
            away = inputs[rows] @ w - y[rows]
            moves.append(-lr * 2 * inputs[rows].T @ away / EACH)
        w = w + pull * keep * np.mean(moves, axis=0)
    return w


def weights(params):
    return np.concatenate([np.ravel(params["a"]), np.ravel(params["b"])])


@pytest.fixture(scope="module")
def result():
    return ALL.run(progress=False)


def broken(*, begin=None, after=None, server=None):
    """`halfway`, of which a function returns something else."""

    def method(local, *, lr: NonNegative = 0.1):
        made = halfway(local, lr=lr)
        (exchange,) = made.exchanges
        changed = {}
        if after is not None:
            changed["client"] = lambda *given: after(*exchange.client(*given))
        if server is not None:
            changed["server"] = server
        init = made.init if begin is None else begin
        return fm.Algorithm(init, (exchange._replace(**changed),))

    return method


# ---- everything own ------------------------------------------------------------------


def test_everything_may_be_own(result):
    """An experiment of own components alone computes what they say, bit and number."""
    np.testing.assert_allclose(weights(result.params), by_hand(), rtol=1e-5)
    names = ["train_loss", "train_off", "test_loss", "test_off"]
    assert set(names) <= set(result.frame) and "test_accuracy" not in result.frame
    inputs = np.concatenate([TEST[0]["left"], TEST[0]["right"]], axis=1)
    away = inputs @ by_hand() - TEST[1]
    last = result.frame.iloc[-1]
    np.testing.assert_allclose(last["test_loss"], (away**2).mean(), rtol=1e-4)
    np.testing.assert_allclose(last["test_off"], abs(away).mean(), rtol=1e-4)
    assert result.frame["bits_up"].tolist() == [COHORT * 3 * 16, COHORT * 3 * 32]
    assert result.frame["bits_down"].tolist() == [COHORT * 3 * 32, COHORT * 3 * 64]


def test_what_is_own_is_said(result, tmp_path):
    """config.json names the objects that a file cannot hold, and what they were."""
    assert set(ALL.own) == {*OWN, "loss", "metrics"}
    assert ALL.title == result.name == "halfway/leading"
    result.write(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert set(stored["own"]) == set(ALL.own)
    assert "only with the objects" in stored["repeatable"]
    assert stored["components"]["algorithm"] == "halfway"
    assert stored["options"]["algorithm"] == {"lr": 0.2, "pull": 0.5}
    assert stored["options"]["sampler"] == {"shift": 0}
    assert stored["experiment"]["loss"]["object"] == "distance"
    again = fm.read(tmp_path)
    assert again.experiment is None and again.name == "halfway/leading"
    np.testing.assert_array_equal(weights(again.params), weights(result.params))
    pd.testing.assert_frame_equal(
        again.frame.astype(result.frame.dtypes), result.frame, check_like=True
    )
    (summary,) = again.summary()
    assert summary["metric"] == "test_loss" and summary["diverged_at"] is None


def test_own_options_are_options():
    """Options of own components are set as those of named ones, by any name."""
    given = {"pull": 0.4, "leading.shift": 1, "uplink.keep": "0.75"}
    changed = dataclasses.replace(ALL, options=given)
    assert changed.parts["algorithm"].spec.hp == {"lr": 0.2, "pull": 0.4}
    assert changed.parts["sampler"].spec.options == {"shift": 1}
    assert changed.parts["uplink"].spec.hp == {"keep": 0.75}
    with pytest.raises(ValueError, match=r"pull must lie in \[0, 1\]: got 2"):
        dataclasses.replace(ALL, options={"pull": 2})


def test_own_components_are_compared(result, tmp_path):
    """Members that are objects are run, named and written like any other."""
    whole = dataclasses.replace(ALL, options={"pull": 1.0})
    found = fm.compare({"whole": whole}, 2, out=tmp_path, progress=False)
    params = found.members["whole"].params
    for seed in range(2):  # nothing is random
        ours = weights(jax.tree.map(lambda leaf, i=seed: leaf[i], params))
        np.testing.assert_allclose(ours, by_hand(pull=1.0), rtol=1e-5)
    both = fm.Comparison({"half": result, **fm.read(tmp_path).members})
    assert both.members["whole"].experiment is None
    title, _, *rows = both.text().splitlines()
    assert "final test_loss" in title
    assert [row.split()[0] for row in rows[:2]] == [*both.members]


def test_own_numbers_are_swept(result, programs):
    """An own float is a lane of one program, whether it is written 1 or 0.5."""
    cube = fm.sweep(ALL, pull=[1, 0.5], keep=[0.25], progress=False)
    assert programs() == 1
    assert cube.frame["pull"].dtype == float and cube.axes == ("pull", "keep")
    ends = cube.frame.groupby("pull")["test_loss"].last()
    np.testing.assert_allclose(ends[0.5], result.frame["test_loss"].iloc[-1], rtol=1e-5)
    assert cube.best("test_loss")["pull"] == ends.idxmin()


def test_own_components_are_a_choice():
    """Objects and names are crossed; each labels its cells, and has its programs."""
    tried = [fm.spec(halfway), fm.spec(halfway, pull=1.0), "fedavg"]
    configurations = [{"algorithm": one, "lr": lr} for one in tried for lr in (0.1, 1)]
    every = fm.lab.sweeps.lanes.lanes(ALL, configurations, 1, False)
    names = ["halfway", "halfway(pull=1.0)", "fedavg"]
    assert [lane.label["algorithm"] for lane in every] == np.repeat(names, 2).tolist()
    cut = fm.lab.sweeps.lanes.pieces(every, 4)
    assert [piece.group for piece in cut] == [0, 1]
    assert cut[0].lanes == [0, 1, 2, 3] and cut[1].lanes == [4, 5]


def test_own_numbers_have_derivatives():
    """Hypergradients of own floats; without names, of all that the algorithm has."""
    found = fm.hypergrad(ALL)
    assert set(found.gradient) == {"lr", "pull"}
    away, step = {}, 1e-4
    (_, y), inputs = TRAIN, np.concatenate([*TRAIN[0].values()], axis=1)
    for name, at in (("lr", 0.2), ("pull", 0.5)):
        for sign in (-1, 1):
            w = by_hand(**{name: at + sign * step})
            away[sign] = ((inputs @ w - y) ** 2).mean()
        slope = (away[1] - away[-1]) / (2 * step)
        np.testing.assert_allclose(found.gradient[name], slope, rtol=1e-3)


@pytest.mark.thorough
def test_own_numbers_are_tuned(tmp_path):
    """Tuning goes downhill in own floats, within the ranges of their annotations."""
    tuned = fm.tune(ALL, updates=2, progress=False)
    loss = tuned.frame["train_loss"]
    assert loss.iloc[1] < loss.iloc[0] and set(tuned.hp) == {"lr", "pull"}
    better = tuned.experiment.parts["algorithm"].spec.hp
    assert better == pytest.approx({k: float(v) for k, v in tuned.hp.items()})
    assert tuned.experiment.dataset is ALL.dataset
    tuned.write(tmp_path)
    again = fm.read(tmp_path)
    assert again.experiment is None
    for name, value in tuned.hp.items():
        assert again.hp[name] == value


# ---- each in its other forms ---------------------------------------------------------


class Net(nn.Module):
    """A flax model with dropout, which needs a key in training."""

    @nn.compact
    def __call__(self, x, train: bool = False):
        x = nn.Dropout(0.5, deterministic=not train)(nn.relu(nn.Dense(4)(x)))
        return nn.Dense(1)(x)


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["left", "right"])
    kinds = np.where(table["left"] > 0, "up", np.where(table["right"] > 0, "a", "b"))
    return table.assign(kind=kinds, who=np.arange(40) % CLIENTS)


SMALL = {"cohort": COHORT, "rounds": 2, "steps": 1, "batch_size": 4}


@pytest.fixture(scope="module")
def named():
    """Named components on a frame whose rows say whose they are."""
    data = fm.from_frame(frame(), "kind", "who")
    given = {"algorithm": "fedavg", "sampler": "ucs", "model": "logistic"}
    half = {"options": {"lr": 0.1, "server_lr": 0.5}}
    return fm.Experiment(dataset=data, **given, **SMALL, **half).run(progress=False)


def test_a_frame_is_a_population(named):
    """Rows of a frame are divided among the clients that its column names."""
    assert named.experiment.own == ("dataset",)
    assert named.experiment.parts["partition"].name == "natural"
    made = named.experiment.build()
    assert made.data.size.shape == (CLIENTS,)
    assert set(made.stores) == {"train", "test"}
    assert {"test_accuracy", "train_accuracy"} <= set(named.frame)


def test_objects_are_what_their_names_are(named):
    """A bare factory, a built sampler, channel and module run as their names do."""
    tools = SamplerTools(COHORT, None)
    objects = dataclasses.replace(
        named.experiment,
        algorithm=fm.algorithms.fedavg,
        sampler=fm.samplers.uniform(tools),
        uplink=fm.channels.identity(),
        model=fm.models.logistic(3),
    )
    assert set(objects.own) == {"algorithm", "sampler", "uplink", "model", "dataset"}
    ours = objects.run(progress=False).frame.drop(columns="seconds")
    pd.testing.assert_frame_equal(ours, named.frame.drop(columns="seconds"))


def test_a_regression_with_an_own_flax_model(named):
    """Float labels go with squared_error; dropout has a key in training, else none."""
    table = frame().assign(kind=lambda t: t["left"] - 2 * t["right"])
    data = fm.from_frame(table, "kind", "who")
    one = dataclasses.replace(
        named.experiment, dataset=data, loss="squared_error", model=Net()
    )
    made = one.build()
    state, _ = made.start(jax.random.key(0))
    x, params = made.data.x[:3], state.server.params
    still = [made.apply(params, x, None) for _ in range(2)]
    np.testing.assert_array_equal(*still)
    noisy = [made.apply(params, x, jax.random.key(i)) for i in range(2)]
    assert not np.array_equal(*noisy)
    history = one.run(progress=False).frame
    assert "test_accuracy" not in history and history["test_loss"].gt(0).all()
    assert set(one.own) == {"dataset", "model"}
    with pytest.raises(ValueError, match="cross_entropy needs one integer label.*sq"):
        dataclasses.replace(one, loss="cross_entropy").build()
    with pytest.raises(ValueError, match="not an instance"):
        dataclasses.replace(one, model=Net).build()


def test_federated_data_and_mappings_of_them(named):
    """Divided data are taken as they are; of a mapping all parts are evaluated."""
    data = named.experiment.dataset
    train = fm.federate(*data.train, fm.partitions.natural(data.groups))
    alone = dataclasses.replace(named.experiment, dataset=train)
    both = dataclasses.replace(
        alone, dataset={"train": train, "test": fm.federate(*data.test)}
    )
    assert alone.own == both.own == ("dataset",)
    assert alone.build().metrics() == ["train_accuracy", "train_loss"]
    ours = both.run(progress=False).frame.drop(columns="seconds")
    theirs = named.frame.drop(columns="seconds")  # the same examples and clients
    pd.testing.assert_frame_equal(ours, theirs, check_like=True)
    for wrong, message in (
        ({"dataset": {"test": train}}, "a part train: got test"),
        ({"partition": "iid"}, "partition must not be given"),
        ({"clients": 7}, "clients must be 4.*got 7"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(alone, **wrong).build()


def test_an_own_optimizer(named):
    """An optimizer is a Spec or a text; its numbers are options, leaves and labels."""
    rate = {"learning_rate": 0.5}
    forms = {
        "spec": {"server_optimizer": fm.spec(optax.sgd, **rate)},
        "named": {"fedopt.server_optimizer": fm.spec(optax.sgd, **rate)},
        "text": {"server_optimizer": "sgd(learning_rate=0.5)"},
        "nested": {
            "server_optimizer": "sgd(learning_rate=7.0)",
            "server_optimizer.learning_rate": 0.5,
        },
    }
    made = {
        name: dataclasses.replace(
            named.experiment, algorithm="fedopt", options=form | {"lr": 0.1}
        )
        for name, form in forms.items()
    }
    for name, one in made.items():
        hp = one.parts["algorithm"].spec.hp
        assert hp == {"lr": 0.1, "server_optimizer": rate}, name
        own = name in ("spec", "named")
        optimizer = ("algorithm.server_optimizer",) if own else ()
        assert one.own == ("dataset", *optimizer), name
    ours = made["spec"].run(progress=False).frame.drop(columns="seconds")
    theirs = named.frame.drop(columns="seconds")  # its server_lr is the same number
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-5)
    for wrong in ("sgd", "sgd(0.1)", "sdg(learning_rate=1.0)", "_x()", "1 + 1"):
        with pytest.raises(ValueError, match="server_optimizer"):
            dataclasses.replace(made["text"], options={"server_optimizer": wrong})


def test_an_own_client_optimizer_is_kept():
    """A client's optimizer is set by text, and its state stays where it is asked to."""
    given = {"client_optimizer": "adam(learning_rate=0.01)", "client_state": "kept"}
    one = fm.Experiment(algorithm="fedopt", model="logistic", options=given)
    assert one.parts["algorithm"].spec.hp["client_optimizer"]["learning_rate"] == 0.01
    state, _ = jax.eval_shape(one.build().start, jax.random.key(0))
    kept = jax.tree.leaves(state.clients.mine.optimizer)
    assert kept and all(leaf.shape[0] == 100 for leaf in kept)
    with pytest.raises(ValueError, match="writes its own local step"):
        fm.Experiment(options=given)  # the default algorithm has none


# Three classes, of one input.
_ROWS = np.zeros((8, 1), np.float32), np.arange(8) % 3
SHORT = {
    "dataset": fm.arrays(*_ROWS, *_ROWS),
    "loss": "cross_entropy",
    "metrics": None,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": {3}}, "algorithm must be a name, a factory or fm.spec"),
        ({"model": 3}, "model must be a flax.linen module, a Model or a pair"),
        ({"loss": "hinge"}, "loss must be one of cross_entropy, squared_error"),
        (
            {"loss": lambda z, y: distance(z, y).mean()},
            r"loss must give one value per example, shape \[B\]: got shape \(\)",
        ),
        ({"loss": lambda z, y: z - y}, r"loss must give one.*got shape \(B, B\)"),
        ({"loss": lambda z, y: z @ y}, r"not fit outputs.*\(B, 1\) and \(B,\)"),
        (
            {"metrics": {"off": lambda z, y: off(z, y).max()}},
            r"metric off must give one value per example.*got shape \(\)",
        ),
        ({"metrics": {"off": lambda z, y: (y, y[:3])}}, r"metric off.*shape \(3,\)"),
        (SHORT | {"model": nn.Dense(2)}, "Dense must give 3 outputs.*to 2: got 2"),
        (SHORT | {"model": nn.Dense(1)}, "Dense must give 3 outputs.*to 2: got 1"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else "",
)
def test_what_is_no_component_is_refused(changes, message):
    """An object of another kind ends in a message, before anything is compiled."""
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(ALL, **changes).build()


class Kept(NamedTuple):
    params: dict


def counting(params, key):
    return Kept(params), {"n": jnp.zeros(2)}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda local: None, r"method must return an fm.Algorithm: got None"),
        (lambda local: (1, 2), r"method must return an fm.Algorithm: got a tuple of 2"),
        (
            lambda local: fm.Algorithm(None, fm.algorithms.fedavg(local).exchanges[0]),
            r"exchanges of method must be a tuple .*\(exchange,\).*: got a Exchange",
        ),
        (
            broken(begin=lambda params, key: Kept(params)),
            r"init of method must return \(server, mine\).*got a Kept",
        ),
        (
            broken(begin=lambda params, key: (params, ())),
            r"init of method .* server has a field params: got a tuple of 2",
        ),
        (
            broken(after=lambda up, mine, metrics: (up, mine)),
            r"client of method must return \(message, state, metrics\).*tuple of 2",
        ),
        (
            broken(after=lambda up, mine, metrics: (up, mine, 0.5)),
            "client of method must return metrics as a dict.*got a float",
        ),
        (
            broken(server=lambda state, agg: agg.mean),
            "server of method must return its state.*field params: got a dict",
        ),
        (
            broken(server=lambda state, agg: print()),
            "server of method must return its state.*field params: got None",
        ),
        (
            broken(begin=counting, after=lambda up, mine, m: (up, mine["n"], m)),
            r"client of method must return a state.*\{'n': \*\}.*: got .*\*",
        ),
        (
            broken(begin=counting, after=lambda up, mine, m: (up, {"n": up["b"]}, m)),
            r"float32\[2\] at \['n'\]: got float32\[1, 1\]",
        ),
        (
            broken(
                begin=counting,
                after=lambda up, mine, m: (up, jax.tree.map(jnp.int32, mine), m),
            ),
            r"float32\[2\] at \['n'\]: got int32\[2\]",
        ),
        (
            broken(
                begin=counting,
                server=lambda state, agg: Kept(state.params | {"c": agg.live}),
            ),
            "server of method must return a state of the structure",
        ),
    ],
    ids=range(13),
)
def test_an_own_algorithm_is_told_what_it_returns(method, message):
    """A slip in an algorithm is said by the algorithm's name, not inside the engine."""
    method.__name__ = "method"
    one = dataclasses.replace(ALL, algorithm=method)
    with pytest.raises(ValueError, match=message):
        jax.eval_shape(one.build().start, jax.random.key(0))
