"""Evaluation against NumPy: all examples, and client by client."""

import dataclasses
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem

# 43 examples: 43 and 1 divide it, 7 and 10 do not, 200 is more than there are.
BATCHES = (1, 7, 10, 43, 200)
METRICS = fm.losses.measures(problem.softmax_net)


class Server(NamedTuple):
    params: Any


def state(params=None):
    """A state of which evaluation reads the server's model."""
    params = problem.softmax_params() if params is None else params
    return fm.types.RoundState(jnp.int32(0), Server(params), (), (), (), {})


@cache
def shared():
    """Clients that share examples; row 5 belongs to three, rows 0..2 to nobody."""
    owned = [[5, 6, 7], [5, 8], [9, 5, 10, 11, 3, 4], [12, 8, 6, 5][:3]]
    sizes = np.array([len(rows) for rows in owned])
    part = fm.partitions.Partition(np.concatenate(owned), sizes)
    return fm.federate(*problem.arrays(), part)


def per_example():
    """Loss and correctness of every row of the store, in NumPy."""
    x, y = problem.arrays()
    params = problem.softmax_params()
    z = x.astype(float) @ np.asarray(params["w"], float) + np.asarray(params["b"])
    loss = np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y]
    return {"loss": loss, "accuracy": (z.argmax(1) == y) * 1.0}


def positions(data):
    """Each client's rows of the store."""
    return np.split(np.asarray(data.order), np.asarray(data.offset)[1:])


def test_devices_share_the_blocks():
    """Every device going through the whole store."""
    evaluate = fm.evaluator(METRICS, 7, fm.backends.sharded())
    program = jax.jit(evaluate).lower(state(), {"a": problem.data()})
    text = program.compile().as_text()
    assert "s32[4,7]" in text  # 43 examples are 7 blocks: 4 for each device, one empty


def test_the_problem_is_not_degenerate():
    """With equal values everywhere the tests below would show nothing."""
    accuracy = per_example()["accuracy"]
    assert 0 < accuracy.mean() < 1


@pytest.mark.parametrize(
    "backend", [None, fm.backends.sharded()], ids=["plain", "sharded"]
)
@pytest.mark.parametrize("batch_size", BATCHES)
def test_the_evaluator_is_a_mean_over_examples(batch_size, backend):
    """A last block counted in full, or examples not owned, would shift the mean."""
    evaluate = jax.jit(fm.evaluator(METRICS, batch_size, backend))
    stores = {"train": problem.data(), "test": shared()}
    got = evaluate(state(), stores)
    assert set(got) == {"train_loss", "train_accuracy", "test_loss", "test_accuracy"}
    for store, data in stores.items():
        for name, values in per_example().items():
            expected = values[np.asarray(data.order)].mean()
            np.testing.assert_allclose(got[f"{store}_{name}"], expected, rtol=1e-5)


@pytest.mark.parametrize("batch_size", BATCHES)
@pytest.mark.parametrize("data", [problem.data, shared], ids=["disjoint", "shared"])
def test_per_client_means(data, batch_size):
    """A value credited to a neighbour would go unnoticed in the overall mean."""
    data = data()
    got = jax.jit(fm.per_client(METRICS, batch_size))(problem.softmax_params(), data)
    for name, values in per_example().items():
        expected = [values[rows].mean() for rows in positions(data)]
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-7)


def test_both_agree():
    """sum_i p_i (mean of client i) is the mean over all examples."""
    params, data = problem.softmax_params(), shared()
    each = fm.per_client(METRICS, 4)(params, data)
    mean = fm.evaluator(METRICS, 4)(state(params), {"s": data})
    share = np.asarray(data.size) / data.order.shape[0]
    for name, values in each.items():
        np.testing.assert_allclose(mean[f"s_{name}"], share @ values, rtol=1e-5)


def test_evaluation_is_without_dropout():
    """The network must be called with no key, or accuracy would be random."""

    def net(params, x, key):
        assert key is None
        return problem.softmax_net(params, x, key)

    evaluate = fm.evaluator(fm.losses.measures(net), 10)
    got = evaluate(state(), {"s": problem.data()})
    assert np.isfinite(got["s_loss"])


def test_values_take_the_dtype_of_the_parameters():
    """Booleans or counts summed in their own type would overflow or truncate."""

    def metrics(params, batch):
        return {"ok": batch.y >= 0, "int": jnp.full(batch.y.shape, 100, jnp.int8)}

    got = fm.evaluator(metrics, 10)(state(jnp.zeros(())), {"s": problem.data()})
    assert got["s_ok"].dtype == got["s_int"].dtype == jnp.float32
    assert float(got["s_ok"]) == 1 and float(got["s_int"]) == 100


def test_any_model_of_the_state_can_be_evaluated():
    """`model` says which parameters are measured, such as a running mean of them."""
    params, stores = problem.softmax_params(), {"s": problem.data()}
    zeros = jax.tree.map(jnp.zeros_like, params)
    other = fm.evaluator(METRICS, 43, model=lambda state: state.clients)
    got = other(state(zeros)._replace(clients=params), stores)
    expected = per_example()["loss"][np.asarray(stores["s"].order)].mean()
    np.testing.assert_allclose(got["s_loss"], expected, rtol=1e-5)


def test_own_loss_and_metrics():
    """Any per-example function of outputs and labels is a loss or a metric."""

    def largest(outputs, y):
        return jnp.abs(outputs - y).max(-1)

    x, y = problem.arrays()
    hot, params = np.eye(problem.CLASSES, dtype=np.float32)[y], problem.softmax_params()
    loss, data = fm.losses.squared_error, {"s": fm.federate(x, hot)}
    measure = fm.losses.measures(problem.softmax_net, loss, {"largest": largest})
    got = fm.evaluator(measure, 10)(state(), data)
    away = x @ np.asarray(params["w"]) + np.asarray(params["b"]) - hot
    np.testing.assert_allclose(got["s_loss"], (away**2).sum(1).mean() / 2, rtol=1e-5)
    np.testing.assert_allclose(got["s_largest"], abs(away).max(1).mean(), rtol=1e-5)
    assert set(got) == {"s_loss", "s_largest"}  # no accuracy of a regression


# ---- metrics with weights ------------------------------------------------------------


def by_class(classes=(0, 1, 2, 7)):
    """Accuracy and loss over the examples of each class; nobody has class 7."""
    accuracy = {
        f"accuracy_{c}": fm.losses.of_class(fm.losses.accuracy, c) for c in classes
    }
    loss = fm.losses.cross_entropy
    losses = {f"loss_{c}": fm.losses.of_class(loss, c) for c in classes}
    return fm.losses.measures(problem.softmax_net, loss, accuracy | losses)


def of_rows(name, number, rows):
    """The mean of a metric over those rows that are of a class, in NumPy."""
    rows = rows[problem.arrays()[1][rows] == number]
    return per_example()[name][rows].mean() if len(rows) else np.nan


@pytest.mark.parametrize(
    "backend", [None, fm.backends.sharded()], ids=["plain", "sharded"]
)
def test_weighted_metrics_are_means_over_a_subset(backend):
    """A class's metric is the mean over its examples; NaN where there are none."""
    data, params = shared(), problem.softmax_params()
    got = jax.jit(fm.evaluator(by_class(), 4, backend))(state(), {"s": data})
    each = jax.jit(fm.per_client(by_class(), 4, backend))(params, data)
    for name in ("accuracy", "loss"):
        for number in (0, 1, 2, 7):
            expected = of_rows(name, number, np.asarray(data.order))
            np.testing.assert_allclose(got[f"s_{name}_{number}"], expected, rtol=1e-5)
            own = [of_rows(name, number, rows) for rows in positions(data)]
            np.testing.assert_allclose(each[f"{name}_{number}"], own, rtol=1e-5)
    assert np.isnan(got["s_loss_7"])


def test_weights_may_be_any_numbers():
    """sum w v / sum w; a value without weight may be none at all."""
    x = jnp.arange(43, dtype=jnp.float32)[:, None]
    data = dataclasses.replace(problem.data(), x=x)
    weights = np.arange(43) % 5

    def metrics(params, batch):
        row = batch.x[:, 0].astype(int)
        weight = jnp.asarray(weights)[row]
        return {"own": (jnp.where(weight == 0, jnp.nan, row), weight)}

    rows = np.asarray(data.order)
    got = fm.evaluator(metrics, 10)(state(), {"s": data})["s_own"]
    expected = np.average(rows, weights=weights[rows])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    each = fm.per_client(metrics, 10)(problem.softmax_params(), data)["own"]
    own = [np.average(rows, weights=weights[rows]) for rows in positions(data)]
    np.testing.assert_allclose(each, own, rtol=1e-6)


# ---- half precision ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_counts_in_full(dtype):
    """A third of 3000 examples: half a type's digits would lose count of them."""
    y = np.arange(3000) % 3
    sizes = np.array([2400, 600])
    parts = fm.partitions.Partition(np.arange(3000), sizes)
    data = fm.federate(np.zeros((3000, 1), np.float32), y, parts)
    params = {"b": jnp.asarray([0.0, 1.0, 0.5], dtype)}

    def net(params, x, key):
        return jnp.broadcast_to(params["b"], (len(x), 3))

    metrics = fm.losses.measures(net)
    z = np.array([0.0, 1.0, 0.5])
    loss = (np.log(np.exp(z).sum()) - z).mean()
    got = fm.evaluator(metrics, 200)(state(params), {"s": data})
    each = fm.per_client(metrics, 200)(params, data)
    for found in (got["s_accuracy"], each["accuracy"]):
        np.testing.assert_allclose(found, 1 / 3, atol=1e-6)
        assert found.dtype == jnp.float32
    # A value has the digits of its type, the mean of many has no fewer.
    for found in (got["s_loss"], each["loss"]):
        np.testing.assert_allclose(found, loss, rtol=1e-2)
        assert found.dtype == jnp.float32


# ---- clients without examples --------------------------------------------------------


@pytest.mark.parametrize("batch_size", [1, 4, 200])
@pytest.mark.parametrize(
    "sizes", [(0, 5, 6), (5, 0, 0, 6), (5, 6, 0)], ids=["first", "middle", "last"]
)
def test_a_client_without_examples_has_no_value(sizes, batch_size):
    """NaN for it, and nothing of it for its neighbours."""
    sizes = np.array(sizes)
    offset = np.cumsum(sizes) - sizes
    x, y = problem.arrays()
    rows = np.random.default_rng(1).permutation(43)[:11]
    numbers = (jnp.asarray(a, jnp.int32) for a in (rows, offset, sizes))
    arrays = (jnp.asarray(x), jnp.asarray(y))
    data = fm.types.FederatedData(*arrays, *numbers, largest=int(sizes.max()))
    got = fm.per_client(METRICS, batch_size)(problem.softmax_params(), data)
    for name, values in per_example().items():
        own = [rows[o : o + n] for o, n in zip(offset, sizes, strict=True)]
        expected = [values[r].mean() if len(r) else np.nan for r in own]
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-7)
