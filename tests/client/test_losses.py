"""Losses and metrics over masked batches."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client.losses import cross_entropy
from fedjax_mos.target import traced_for
from tests import problem

X, Y = problem.arrays()
MASK = np.arange(6) < 4


def batch(x, y):
    """Six rows, of which the last two are padding full of NaN."""
    x = np.where(MASK.reshape(-1, *[1] * (x.ndim - 1)), x[:6], np.nan)
    return fm.types.Batch(jnp.asarray(x), jnp.asarray(y[:6]), jnp.asarray(MASK))


def test_a_mean_loss_is_the_mean_over_real_rows():
    """Padding counts neither in the sum nor in the number of examples."""
    params = problem.softmax_params()
    z = X[:4] @ np.asarray(params["w"]) + np.asarray(params["b"])
    expected = np.log(np.exp(z).sum(1)) - z[np.arange(4), Y[:4]]
    got = fm.losses.mean_loss(problem.softmax_net)(params, batch(X, Y), None)
    np.testing.assert_allclose(got, expected.mean(), rtol=1e-5)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_the_squared_error_sums_over_a_label(shape):
    """Half of |outputs - y|^2 per example, whatever shape a label has."""
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(2, 5, *shape))
    expected = 0.5 * ((outputs - y) ** 2).reshape(5, -1).sum(1)
    got = fm.losses.squared_error(jnp.asarray(outputs), jnp.asarray(y))
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_any_loss_of_outputs_fits():
    """An own loss takes the place of the cross-entropy."""

    def count(outputs, y):
        return jnp.arange(len(y)) + 1.0

    own = fm.losses.mean_loss(problem.softmax_net, count)
    assert float(own(problem.softmax_params(), batch(X, Y), None)) == 2.5


def test_measures_have_the_accuracy_where_there_are_classes():
    """The accuracy comes with the cross-entropy only; own metrics replace it."""
    net, params, rows = problem.softmax_net, problem.softmax_params(), batch(X, Y)
    usual = fm.losses.measures(net)(params, rows)
    assert set(usual) == {"loss", "accuracy"}
    right = np.argmax(net(params, X[:4], None), -1) == Y[:4]
    np.testing.assert_array_equal(usual["accuracy"][:4], right)
    assert set(fm.losses.measures(net, lambda z, y: z[:, 0])(params, rows)) == {"loss"}
    own = {"top": lambda z, y: z.max(-1)}
    found = fm.losses.measures(net, metrics=own)(params, rows)
    assert set(found) == {"loss", "top"} and found["top"].shape == (6,)


# ---- more metrics --------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_top_k_is_a_place_in_a_sorted_list(k):
    """The label's logit is among the k largest; the first is the accuracy."""
    rng = np.random.default_rng(k)
    outputs, y = rng.normal(size=(200, 5)), rng.integers(0, 5, 200)
    place = np.array(
        [np.argsort(-row).tolist().index(c) for row, c in zip(outputs, y, strict=True)]
    )
    found = fm.losses.top(k)(jnp.asarray(outputs), jnp.asarray(y))
    np.testing.assert_array_equal(found, place < k)
    if k == 1:
        usual = fm.losses.accuracy(jnp.asarray(outputs), jnp.asarray(y))
        np.testing.assert_array_equal(found, usual)


def test_ties_count_against_the_label():
    """A model that says the same of all classes is not right about any."""
    flat, y = jnp.zeros((3, 4)), jnp.array([0, 1, 3])
    assert fm.losses.top(3)(flat, y).tolist() == [False] * 3
    assert fm.losses.top(4)(flat, y).tolist() == [True] * 3
    assert fm.losses.top(2)(jnp.array([[1.0, 1.0, 0.0]]), y[:1]).tolist() == [True]


def test_a_diverged_model_is_not_right():
    """Outputs that are no numbers are not among the largest."""
    nothing, y = jnp.full((2, 4), jnp.nan), jnp.array([0, 2])
    assert fm.losses.top(2)(nothing, y).tolist() == [False, False]
    partly = jnp.array([[jnp.nan, 1.0, 0.5, 0.2]])
    assert fm.losses.top(1)(partly, y[:1]).tolist() == [False]


def test_metrics_of_a_class_have_its_examples_as_weights():
    """Values stay; weights say who is of the class."""
    rng = np.random.default_rng(0)
    outputs, y = jnp.asarray(rng.normal(size=(9, 3))), jnp.arange(9) % 3
    named = fm.losses.accuracy_per_class(3)
    assert list(named) == ["accuracy_0", "accuracy_1", "accuracy_2"]
    for number, metric in enumerate(named.values()):
        values, weights = metric(outputs, y)
        right = np.argmax(outputs, 1) == np.asarray(y)
        np.testing.assert_array_equal(values, right)
        np.testing.assert_array_equal(weights, np.asarray(y) == number)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_the_absolute_error_sums_over_a_label(shape):
    """|outputs - y| per example, whatever shape a label has."""
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(2, 5, *shape))
    expected = abs(outputs - y).reshape(5, -1).sum(1)
    got = fm.losses.absolute_error(jnp.asarray(outputs), jnp.asarray(y))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    if shape == ():  # a network's column for plain numbers
        column = fm.losses.absolute_error(jnp.asarray(outputs)[:, None], jnp.asarray(y))
        np.testing.assert_allclose(column, expected, rtol=1e-5)


def test_cross_entropy_is_the_same_on_accelerators():
    """Another loss, or another gradient, than on a CPU."""
    outputs = 3 * jax.random.normal(jax.random.key(0), (7, 4))
    y = jnp.array([0, 1, 2, 3, 3, 0, 1])
    found = [
        jax.value_and_grad(lambda o, f=f: (f(o, y) * jnp.arange(7)).sum())(outputs)
        for f in (cross_entropy, traced_for("tpu", cross_entropy))
    ]
    chex.assert_trees_all_close(*found, rtol=1e-5, atol=1e-6)
