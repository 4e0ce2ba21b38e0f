"""Clients one by one: their models, their examples, and statistics over them."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.client_statistics import statistics
from tests import problem

pytestmark = pytest.mark.thorough

STATISTICS = ("mean", "std", "worst_decile", "jain", "q10", "q50", "q90")
X, Y = problem.arrays()
LR = 0.7
# One step on all of a client's examples: NumPy can repeat it.
WHOLE = {"epochs": 1, "batch_size": max(problem.SIZES)}
OWN = fm.Experiment(
    dataset={"train": problem.data(), "test": fm.federate(X, Y)},
    algorithm="fedavg",
    sampler="ucs",
    model="logistic",
    cohort=2,
    rounds=2,
    options={"lr": LR},
    **WHOLE,
)


class Options(dict):
    """Options that `ran` can remember."""

    def __hash__(self):
        return hash(tuple(sorted(self.items())))


@cache
def ran(seeds=None, **changes):
    return dataclasses.replace(OWN, **changes).run(seeds, progress=False)


def numbers(params, lane=None):
    """W and b of the logistic model, in double precision."""
    leaves = jax.tree.leaves(params)
    leaves = [np.asarray(v if lane is None else v[lane], float) for v in leaves]
    (b,), (w,) = ([v for v in leaves if v.ndim == n] for n in (1, 2))
    return w, b


def softmax(w, b, rows):
    z = X[rows].astype(float) @ w + b
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def measured(w, b, rows):
    """Loss and accuracy over rows of the store."""
    p = softmax(w, b, rows)
    loss = -np.log(p[np.arange(len(rows)), Y[rows]]).mean()
    return {"loss": loss, "accuracy": (p.argmax(1) == Y[rows]).mean()}


def stepped(w, b, rows):
    """One step of gradient descent on the cross-entropy of rows."""
    away = softmax(w, b, rows) - np.eye(problem.CLASSES)[Y[rows]]
    return w - LR * X[rows].T @ away / len(rows), b - LR * away.mean(0)


def owned(data):
    return np.split(np.asarray(data.order), np.asarray(data.offset)[1:])


def expected(result, personal, lane=None):
    """Every client's metrics: what it trains on, what it is measured on, in NumPy."""
    stores = result.experiment.build().stores
    train = owned(stores["train"])
    own = owned(stores.get("held_out", stores["train"]))
    rows = []
    for trains_on, measured_on in zip(train, own, strict=True):
        w, b = numbers(result.params, lane)
        if personal:
            w, b = stepped(w, b, trains_on)
        some = len(measured_on) > 0
        rows.append(measured(w, b, measured_on) if some else {"loss": np.nan})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "held_out", [pytest.param(0.0, marks=pytest.mark.thorough), 0.2]
)
def test_clients_are_measured_on_their_own_examples(held_out):
    """The server's model and personal ones, client by client, are NumPy's.

    The first client has too few examples to give one: NaN.
    """
    result = ran(per_client="personal", held_out=held_out)
    store = "held_out" if held_out else "train"
    sizes = result.experiment.build().data.size
    assert result.clients["client"].tolist() == [*range(6)]
    assert result.clients["examples"].tolist() == sizes.tolist()
    plain, personal = (expected(result, flag) for flag in (False, True))
    for name in ("loss", "accuracy"):
        found = result.clients[f"{store}_{name}"]
        np.testing.assert_allclose(found, plain[name], rtol=1e-4)
        found = result.clients[f"personal_{store}_{name}"]
        np.testing.assert_allclose(found, personal[name], rtol=1e-4)
    assert plain["loss"].isna().tolist() == [held_out > 0, *[False] * 5]
    assert (personal["loss"] != plain["loss"]).all()


def test_statistics_are_those_of_the_clients():
    """The last round's columns are statistics of the clients after it."""
    result = ran(per_client="personal", held_out=0.2)
    last = result.frame.iloc[-1]
    for name in ("held_out_loss", "held_out_accuracy", "personal_held_out_accuracy"):
        values = result.clients[name].dropna().to_numpy(float)
        assert len(values) == 5
        assert last[f"{name}_client_mean"] == pytest.approx(values.mean(), rel=1e-5)
        assert last[f"{name}_client_std"] == pytest.approx(values.std(), rel=1e-4)
        median = np.quantile(values, 0.5)
        assert last[f"{name}_client_q50"] == pytest.approx(median, rel=1e-5)
        worst = values.max() if name.endswith("loss") else values.min()
        assert last[f"{name}_client_worst_decile"] == pytest.approx(worst, rel=1e-5)


def test_off_adds_no_column():
    """Nothing but the columns of statistics is new, and no number changes."""
    words = ("off", "global", "personal")
    off, plain, personal = (ran(per_client=word, held_out=0.2) for word in words)
    assert off.clients is None and off.cohorts is None
    wanted = {
        f"held_out_{name}_client_{s}"
        for name in ("loss", "accuracy")
        for s in STATISTICS
    }
    assert set(plain.frame) - set(off.frame) == wanted
    more = {f"personal_{name}" for name in wanted}
    assert set(personal.frame) - set(plain.frame) == more
    same = [name for name in off.frame if name != "seconds"]
    for other in (plain, personal):
        pd.testing.assert_frame_equal(other.frame[same], off.frame[same], rtol=1e-6)


def test_a_personal_model_without_steps_is_the_servers():
    """With a vanishing step size clients keep what they are given."""
    still = ran(per_client="personal", held_out=0.2, options=Options(lr=1e-9))
    clients = still.clients
    for name in ("held_out_loss", "held_out_accuracy"):
        np.testing.assert_allclose(
            clients[f"personal_{name}"], clients[name], rtol=1e-5
        )


@pytest.mark.thorough
def test_personal_models_follow_a_decay():
    """The step size is that of the round: by then it has all but vanished."""
    options = Options(lr=LR, round_decay=1e-4)
    clients = ran(per_client="personal", options=options).clients
    np.testing.assert_allclose(
        clients["personal_train_loss"], clients["train_loss"], rtol=1e-5
    )


@pytest.mark.thorough
@pytest.mark.parametrize("backend", ["chunked:1", "sharded", "spread"])
def test_the_layout_does_not_matter(backend):
    """Clients fare the same however they are laid out on the machine."""
    steps = {"epochs": None, "steps": 2, "batch_size": 3, "held_out": 0.2}
    usual = ran(per_client="personal", backend="vmapped", **steps)
    other = ran(per_client="personal", backend=backend, **steps)
    pd.testing.assert_frame_equal(other.clients, usual.clients, rtol=1e-4)
    names = [name for name in usual.frame if "_client_" in name]
    assert names
    pd.testing.assert_frame_equal(other.frame[names], usual.frame[names], rtol=1e-4)


@pytest.mark.thorough
def test_seeds_have_clients_of_their_own():
    """Every seed's clients are measured with its own model."""
    result = ran(2, per_client="personal", seed=3, cohorts=True)
    assert result.clients["seed"].tolist() == [3] * 6 + [4] * 6
    for lane in range(2):
        own = result.clients[result.clients["seed"] == 3 + lane]
        for name, flag in (("train_loss", False), ("personal_train_loss", True)):
            wanted = expected(result, flag, lane)["loss"]
            np.testing.assert_allclose(own[name], wanted, rtol=1e-4)
        rows = result.cohorts[result.cohorts["seed"] == 3 + lane]
        count = np.bincount(rows["client"], minlength=6)
        assert own["participations"].tolist() == count.tolist()


def test_cohorts_of_an_experiment():
    """Participations are rows of cohorts; bits are what each round adds."""
    result = ran(cohorts=True)
    assert set(result.cohorts) >= {"round", "client", "weight", "bits_up", "bits_down"}
    assert result.clients.columns.tolist() == ["client", "examples", "participations"]
    count = np.bincount(result.cohorts["client"], minlength=6)
    assert result.clients["participations"].tolist() == count.tolist()
    assert count.sum() == 2 * 2
    for name in ("bits_up", "bits_down"):
        added = np.diff(result.frame[name], prepend=0)
        assert result.cohorts.groupby("round")[name].sum().tolist() == added.tolist()
    assert not any("cohort" in name for name in result.frame)


def test_clients_and_cohorts_come_back(tmp_path):
    """What was written is read, file by file; what was not kept is None."""
    result = ran(per_client="personal", held_out=0.2)
    result = dataclasses.replace(result, cohorts=ran(cohorts=True).cohorts)
    result.write(tmp_path / "kept")
    again = fm.read(tmp_path / "kept")
    pd.testing.assert_frame_equal(again.cohorts, result.cohorts)
    pd.testing.assert_frame_equal(again.clients, result.clients, check_dtype=False)
    plain = dataclasses.replace(result, clients=None, cohorts=None)
    plain.write(tmp_path / "plain")
    names = {path.name for path in (tmp_path / "kept").iterdir()}
    others = {path.name for path in (tmp_path / "plain").iterdir()}
    assert names - others == {"clients.csv", "cohorts.parquet"}
    assert fm.read(tmp_path / "plain").clients is None


def test_a_method_without_lr_has_no_personal_models():
    """The message names what is missing and what works."""

    def echo(local):
        exchange = fm.Exchange(
            lambda server: server.params,
            lambda down, mine, view, key: (down, mine, {}),
            lambda server, agg: server,
        )
        start = problem.Server
        return fm.Algorithm(lambda params, key: (start(params), ()), (exchange,))

    one = dataclasses.replace(OWN, algorithm=echo, per_client="personal", options={})
    with pytest.raises(ValueError, match="lr of the algorithm, which echo does not"):
        one.build()
    with pytest.raises(ValueError, match="per_client must be one of off, global"):
        fm.Experiment(per_client="local")


# ---- statistics ----------------------------------------------------------------------


def by_hand(values, falls):
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    worst_first = np.sort(known)[:: -1 if falls else 1]
    tenth = max(1, int(np.ceil(len(known) / 10)))
    return {
        "mean": known.mean(),
        "std": known.std(),
        "worst_decile": worst_first[:tenth].mean(),
        "jain": known.sum() ** 2 / (len(known) * (known**2).sum()),
        **{f"q{q}": np.quantile(known, q / 100) for q in (10, 50, 90)},
    }


@pytest.mark.parametrize("falls", [False, True], ids=["accuracy", "loss"])
@pytest.mark.parametrize("count", [1, 2, 10, 11, 30, 57, 60])
def test_statistics_over_clients(count, falls):
    """NumPy's, of those clients of 60 that have examples."""
    rng = np.random.default_rng(count)
    values = np.concatenate([rng.random(count), np.full(60 - count, np.nan)])
    values = rng.permutation(values)
    found = statistics(jnp.asarray(values), falls)
    assert tuple(found) == STATISTICS
    for name, wanted in by_hand(values, falls).items():
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, err_msg=name)


def test_jains_index_at_its_ends():
    """1 if all have the same, 1/n if one has all."""
    assert float(statistics(jnp.full(60, 0.3), False)["jain"]) == pytest.approx(1)
    alone = jnp.zeros(60).at[2].set(0.5)
    assert float(statistics(alone, False)["jain"]) == pytest.approx(1 / 60)
