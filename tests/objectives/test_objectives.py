"""What a client minimises: objectives, and the edges of their terms.

Every method's values and gradients are checked against NumPy in tests/algorithms.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.store import take, views
from fedjax_mos.objectives import terms
from fedjax_mos.objectives.base import Memory, TermView, class_counts
from tests import problem

X, Y = problem.arrays()
DATA = problem.data()


def rows_of(client):
    order, size = problem.partition()
    end = np.cumsum(size)[client]
    return order[end - size[client] : end]


def seen(rows, labels=None, memory=()):
    """A term's view of these rows; the received model is another one."""
    params, batch = problem.tanh_params(), take(DATA, jnp.asarray(rows))
    hidden = problem.tanh_forward(params, batch.x, 0, None)
    labels = jnp.ones(problem.CLASSES, int) if labels is None else labels
    anchor = problem.tanh_params(seed=1)
    return TermView(params, hidden, batch, anchor, memory, labels, problem.tanh_forward)


def test_near_anchor_adds_a_pull():
    """The gradient is the plain one and prox (y - x)."""
    work, view = problem.work(), views(DATA, jnp.int32(3))
    x, y, batch = (
        problem.tanh_params(),
        problem.tanh_params(1),
        take(DATA, jnp.arange(5)),
    )
    plain, near = (
        jax.grad(objective.build(work, x, (), view))(y, batch, None)
        for objective in (fm.objectives.plain(), fm.objectives.near_anchor(prox=0.3))
    )
    for name in x:
        expected = plain[name] + 0.3 * (y[name] - x[name])
        np.testing.assert_allclose(near[name], expected, rtol=1e-5, atol=1e-6)


def test_the_class_counts_are_the_clients():
    """FedLC's margins come from the client's own labels."""
    for client in range(len(problem.SIZES)):
        expected = np.bincount(Y[rows_of(client)], minlength=problem.CLASSES)
        view = views(DATA, jnp.int32(client))
        np.testing.assert_array_equal(class_counts(view, problem.CLASSES), expected)


def test_terms_need_a_model_that_can_be_looked_into():
    """Without `forward` the message says where it is given."""
    work = fm.local_work(
        fm.losses.mean_loss(problem.tanh_net), fm.plans.with_replacement(2, 2)
    )
    build = fm.objectives.methods.moon().build
    with pytest.raises(ValueError, match=r"local_work\(forward=\.\.\.\)"):
        build(work, problem.tanh_params(), (), views(DATA, jnp.int32(0)))


@pytest.mark.parametrize("met", [False, True])
def test_the_contrast_waits_for_a_first_meeting(met):
    """A client that has no model of its own yet is not pushed away from zeros."""
    memory = Memory(problem.tanh_params(seed=2), jnp.asarray(met))
    value = terms.contrastive(0.7, 0.5)(seen([0, 1, 2], memory=memory))
    assert (float(value) > 0) == met


def test_one_example_has_no_correlations():
    """FedDecorr of a single example is zero, and so is its gradient."""
    alone = terms.decorrelation(0.3)
    assert float(alone(seen([4, -1, -1]))) == 0
    assert float(alone(seen([4, 5, 6]))) > 0

    def value(params):
        now = seen([4, -1, -1])
        hidden = problem.tanh_forward(params, now.batch.x, 0, None)
        return alone(now._replace(params=params, hidden=hidden))

    slope = jax.grad(value)(problem.tanh_params())
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(slope))


def test_a_client_of_one_class_has_nothing_to_calibrate():
    """Without the true class in the denominator there is no other class to compare."""
    own = [i for i in range(len(Y)) if Y[i] == 1][:3]
    labels = jnp.array([0, 3, 0])
    literal = terms.calibrated(0.8, include_true=False)
    assert float(literal(seen(own, labels))) == 0
    both = literal(seen(own, jnp.array([2, 3, 0])))
    assert np.isfinite(both) and float(both) != 0
    assert float(terms.calibrated(0.8)(seen(own, labels))) == pytest.approx(0, abs=1e-6)


def test_an_objective_of_ones_own_goes_with_any_server():
    """on_fedavg and on_fedacg publish an objective's options as the method's."""

    def pulled(*, strength: fm.types.NonNegative = 0.5):
        """Pulled towards the received model."""
        return fm.objectives.near_anchor(prox=strength)

    for make in (fm.algorithms.on_fedavg, fm.algorithms.on_fedacg):
        made = fm.spec(make(pulled), strength=0.2)
        assert made.hp["strength"] == 0.2 and made.hp["lr"] == 0.1
        with pytest.raises(ValueError, match="strength must lie in"):
            made.replace(strength=-1.0)
