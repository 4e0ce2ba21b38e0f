"""Losses and metrics over masked batches."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
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
