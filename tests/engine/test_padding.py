"""Padding never counts: in evaluations, gradients and rounds."""

from types import SimpleNamespace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from fedjax_mos.data.store import views
from tests import problem

pytestmark = pytest.mark.thorough

N = len(problem.SIZES)


def state_of(params):
    """All that an evaluation of the server's model looks at."""
    server = SimpleNamespace(params=params)
    return fm.types.RoundState(0, server, (), (), (), {})


def surrounded(poison, label):
    """The toy population in a store whose first and last rows nobody owns."""
    x, y = problem.arrays()
    order, size = problem.partition()
    strange = np.full((1, problem.FEATURES), poison, x.dtype)
    return fm.types.FederatedData(
        x=jnp.asarray(np.concatenate([strange, x, strange])),
        y=jnp.asarray(np.concatenate([[label], y, [label]])),
        order=jnp.asarray(order + 1, jnp.int32),
        offset=jnp.asarray(np.cumsum(size) - size, jnp.int32),
        size=jnp.asarray(size, jnp.int32),
        largest=int(size.max()),
    )


def finite_and_equal(fn, poison, label=0):
    """`fn(data)` is the same whether padding points to a real row or to poison."""
    fn = jax.jit(fn)
    got, expected = fn(surrounded(poison, label)), fn(problem.data())
    chex.assert_tree_all_finite(got)
    chex.assert_trees_all_close(got, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
def test_padding_never_enters_an_evaluation(poison):
    """A mean over padding would shift every reported number."""
    metrics, params = fm.losses.measures(problem.softmax_net), problem.softmax_params()
    served = state_of(params)
    whole, each = fm.evaluator(metrics, 10), fm.per_client(metrics, 10)
    finite_and_equal(
        lambda data: (whole(served, {"train": data}), each(params, data)), poison
    )


TOOLS = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.epochs(2, 5), micro_batch=5
)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
def test_padding_never_enters_a_gradient(poison):
    """Short last batches, full gradients and large batches are all padded."""
    params, key = problem.softmax_params(), jax.random.key(0)

    def work(data):
        def one(client):
            view = views(data, client)
            plan = TOOLS.plan(view, key)

            def step(params, now):
                value, g = TOOLS.gradient(params, now)
                return TOOLS.descend(params, g, 0.3, now), (value, g)

            big = local.large_batch(view, key, 8)
            return (
                local.local_scan(step, params, view, plan),
                TOOLS.full_gradient(params, view, key),
                TOOLS.gradient(params, fm.types.Step(big, plan.epoch[0], key)),
            )

        return jax.vmap(one)(jnp.arange(N))

    finite_and_equal(work, poison)


@pytest.mark.parametrize("poison", [1e6, np.nan], ids=["huge", "nan"])
@pytest.mark.parametrize("first_batch", ["full", 8])
def test_padding_never_enters_a_round(first_batch, poison):
    """The whole round on a poisoned store must equal the round without poison."""
    hp = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
    spec = fm.spec(fm.algorithms.fedmos, first_batch=first_batch, **hp)
    sim = fm.simulation(spec, TOOLS, fm.samplers.uniform(problem.tools(N)))
    params, key = problem.softmax_params(), jax.random.key(0)

    def work(data):
        state, info = sim.step(data, sim.init(params, data, key), key)
        return state.server, info.metrics

    finite_and_equal(work, poison)
