"""A client whose update is not finite is left out, and only where that is asked."""

import dataclasses
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem

KEY = jax.random.key(2)
IDS, WEIGHTS, BROKEN = [4, 1, 3], [0.5, 0.3, 0.4], 1
METHODS = {
    "one exchange": fm.algorithms.fedavg,
    "rows": fm.algorithms.scaffold,
    "two exchanges": fm.algorithms.mime,
    "momentum": fm.algorithms.fedadam,
}


@cache
def broken_data():
    """The toy population; one client's examples are no numbers."""
    data = problem.data()
    first = sum(problem.SIZES[:BROKEN])
    rows = data.order[first : first + problem.SIZES[BROKEN]]
    return dataclasses.replace(data, x=jnp.asarray(data.x).at[rows].set(jnp.nan))


def after(method, drop, ids=IDS, weights=WEIGHTS, backend=None, rounds=2):
    """State and the last round's information after some rounds."""
    sim = fm.simulation(
        fm.spec(METHODS[method], lr=0.1),
        problem.work(),
        problem.fixed_cohort(ids, jnp.array(weights)),
        drop_nonfinite=drop,
        backend=backend,
    )
    state, info = sim.init(problem.tanh_params(), broken_data(), KEY), None
    for t in range(rounds):
        key = jax.random.fold_in(KEY, t)
        state, info = sim.step(broken_data(), state, key)
    return state, info


@pytest.mark.parametrize(
    "method",
    [
        n if n == "rows" else pytest.param(n, marks=pytest.mark.thorough)
        for n in METHODS
    ],
)
def test_the_others_go_on_without_it(method):
    """The round equals one in which it was not chosen, with the sum of weights kept."""
    got, info = after(method, drop=True)
    factor = sum(WEIGHTS) / (WEIGHTS[0] + WEIGHTS[2])
    left = [WEIGHTS[0] * factor, WEIGHTS[2] * factor]
    expected, other = after(method, drop=False, ids=[4, 3], weights=left)
    chex.assert_trees_all_close(got, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(info.metrics["loss"], other.metrics["loss"], rtol=1e-5)
    np.testing.assert_allclose(info.metrics["dropped"], 1 / 3)
    assert info.bits_up[1] > 0  # it did send


@pytest.mark.thorough
@pytest.mark.parametrize(
    "backend", [fm.backends.chunked(1), fm.backends.chunked(2), fm.backends.sharded()]
)
def test_every_layout_drops_the_same(backend):
    """Dropping is part of the round, not of a layout."""
    got, _ = after("rows", drop=True, backend=backend)
    expected, _ = after("rows", drop=True)
    chex.assert_trees_all_close(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["one exchange", "momentum"])
def test_nobody_left_moves_nothing(method):
    """A round in which all were dropped leaves the server where it was."""
    state, info = after(method, drop=True, ids=[BROKEN], weights=[1.0])
    before, _ = after(method, drop=True, rounds=0)
    chex.assert_trees_all_equal(state.server, before.server)
    assert info.metrics["dropped"] == 1


@pytest.mark.thorough
def test_without_the_option_a_broken_client_breaks_the_model():
    """What is not asked for is not hidden."""
    state, info = after("one exchange", drop=False)
    assert np.isnan(np.asarray(state.server.params["w"])).all()
    assert "dropped" not in info.metrics


@pytest.mark.thorough
def test_an_experiment_counts_those_it_dropped():
    """The history says how many; the run is not one that diverged."""
    x, y = problem.arrays()
    x[:3] = 1e38  # all examples of the first client, which overflows
    parts = fm.partitions.Partition(np.arange(len(y)), np.array(problem.SIZES))
    data = fm.federate(x, y, parts)
    # Measured on the others: the first client's own loss is no number.
    test = fm.federate(x[3:], y[3:])
    own = {
        "dataset": {"train": data, "test": test},
        "cohort": 6,
        "sampler": "everyone",
        "rounds": 3,
    }
    broken = fm.Experiment(**own, model="logistic", algorithm="fedavg", eval_every=3)
    whole = dataclasses.replace(broken, drop_nonfinite=True).run(progress=False)
    np.testing.assert_allclose(whole.frame["local_dropped"], 1 / 6, rtol=1e-5)
    assert np.isfinite(whole.frame["local_loss"]).all()
    assert not whole.frame["diverged"].any()
    lost = broken.run(progress=False)
    assert lost.frame["diverged"].any() and "local_dropped" not in lost.frame


def test_a_round_that_drops_everyone_has_no_loss():
    """A loss of 0, which looks like the best that there is."""
    _, info = after("one exchange", drop=True, ids=[BROKEN] * 1, weights=[1.0])
    assert np.isnan(info.metrics["loss"]) and info.metrics["dropped"] == 1
    _, info = after("one exchange", drop=True)
    assert np.isfinite(info.metrics["loss"])
