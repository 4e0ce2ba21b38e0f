"""Diagnostics against NumPy: softmax regression, plans that draw nothing."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import diagnostics
from fedjax_mos.lab.columns import meaning
from fedjax_mos.lab.setting_checks import DIAGNOSTICS
from tests import problem
from tests.algorithms.reference import CLIENTS, STEPS, World, softmax_gradient
from tests.lab.tiny import TINY

LR, SERVER_LR, COHORT = 0.5, 0.8, 3
KEY = jax.random.key(9)
MASS = np.array([5, 1, 9, 2, 2, 4])
MEASURE = fm.losses.measures(problem.softmax_net)


def simulated(algorithm="fedavg", **numbers):
    made = fm.spec(getattr(fm.algorithms, algorithm), lr=LR, **numbers)
    work = World().work(fm.losses.mean_loss(problem.softmax_net))
    return fm.simulation(made, work, fm.spec(fm.samplers.uniform), cohort=COHORT)


def begun(sim, data):
    return sim.init(problem.softmax_params(), data, KEY)


def reference(cohorts, p):
    """All five numbers, from their definitions; theta = b, then w."""
    params = problem.softmax_params()
    x = np.concatenate([np.ravel(params[n]).astype(float) for n in ("b", "w")])
    slopes = np.array([softmax_gradient(x, *one) for one in CLIENTS])
    moved = np.array(
        [
            World().walk(x, i, LR, lambda y, b: softmax_gradient(y, *b)) - x
            for i in range(len(CLIENTS))
        ]
    )
    slope = p @ slopes
    updates = np.array([SERVER_LR * sum(w * moved[i] for i, w in c) for c in cohorts])
    cosines = [
        -(u @ slope) / np.linalg.norm(u) / np.linalg.norm(slope) for u in updates
    ]
    wrong = -moved / (STEPS * LR) - slopes
    return {
        "squared_gradient_norm": slope @ slope,
        "client_drift": p @ (moved**2).sum(axis=1),
        "direction_error": p @ (wrong**2).sum(axis=1),
        "update_variance": updates.var(axis=0, ddof=1).sum(),
        "update_cosine": np.mean(cosines),
        "compression_ratio": 0,  # nothing is compressed: test_compression_ratios.py
        "rule_ratio": 0,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("mass", [None, MASS], ids=["sizes", "masses"])
def test_diagnostics_are_their_definitions(mass):
    """A weight, a sign or a step size that is not the definition's fails here."""
    data = fm.federate(*problem.arrays(), problem.partition(), mass=mass)
    sim = simulated(server_lr=SERVER_LR)
    state = begun(sim, data)
    diagnose = diagnostics.diagnostics(sim, MEASURE, DIAGNOSTICS)
    found = jax.jit(diagnose)(state, data, KEY)
    keys = jax.random.split(jax.random.split(KEY)[1], diagnostics.ROUNDS)
    tried = [sim.step(data, state, key)[1].cohort for key in keys]
    cohorts = [
        list(zip(c.ids.tolist(), c.weights.tolist(), strict=True)) for c in tried
    ]
    assert len({tuple(sorted(c.ids.tolist())) for c in tried}) > 1
    p = np.array(problem.SIZES if mass is None else mass)
    expected = reference(cohorts, p / p.sum())
    assert {*found} == {*DIAGNOSTICS} == {*expected}
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=2e-4, atol=1e-6, err_msg=name
        )
        assert "store" not in str(meaning(name))


def test_nothing_is_added_where_nothing_is_asked():
    """Free when off: the evaluation is the very same function."""

    def evaluate(state, stores):
        return {}

    assert (
        diagnostics.with_diagnostics(evaluate, TINY, simulated(), MEASURE) is evaluate
    )


def test_only_what_is_wanted_is_there():
    """In the order that was asked for."""
    data, sim = problem.data(), simulated()
    wanted = ("client_drift", "squared_gradient_norm")
    made = diagnostics.diagnostics(sim, MEASURE, wanted)
    assert tuple(jax.eval_shape(made, begun(sim, data), data, KEY)) == wanted


def test_methods_of_two_exchanges_have_no_local_diagnostics():
    """Their clients' second work needs what the server made of the first."""
    data, sim = problem.data(), simulated("mime")
    made = diagnostics.diagnostics(sim, MEASURE, ("client_drift",))
    with pytest.raises(ValueError, match="need a method with one exchange.*has 2"):
        jax.eval_shape(made, begun(sim, data), data, KEY)


def test_a_cosine_with_nothing_is_zero():
    """Not NaN, which would mark a run as diverged."""
    one = np.ones(3, np.float32)
    assert diagnostics.cosine(one, 0 * one) == 0
    np.testing.assert_allclose(diagnostics.cosine(one, -2 * one), -1, rtol=1e-6)


@pytest.mark.thorough
def test_an_experiment_has_the_columns_it_asks_for():
    """For several seeds at once, of a method with client state; none by default."""
    common = {"rounds": 2, "clients": 6, "cohort": 2, "model": "logistic"}
    one = fm.Experiment(algorithm="scaffold", diagnostics=DIAGNOSTICS, **common)
    frame = one.run(2, progress=False).frame
    assert np.isfinite(frame[list(DIAGNOSTICS)].to_numpy()).all()
    assert (frame[list(DIAGNOSTICS[:4])] > 0).all().all()
    plain = fm.Experiment(algorithm="scaffold", **common).run(2, progress=False).frame
    assert not {*DIAGNOSTICS} & {*plain}
    np.testing.assert_allclose(frame["train_loss"], plain["train_loss"], rtol=1e-5)


def test_an_unknown_diagnostic_is_refused():
    """By name, with those that there are."""
    with pytest.raises(ValueError, match="some of squared_gradient_norm, .*got 'nor"):
        fm.Experiment(diagnostics=("norm",))


@pytest.mark.parametrize("name", ["fedcm", "fedlomo", "fedacg", "moon_acg"])
def test_methods_that_send_something_else_are_refused(name):
    """A direction or a move from elsewhere is no y_i - x."""
    one = fm.Experiment(algorithm=name, diagnostics=("client_drift",))
    with pytest.raises(ValueError, match=f"whose clients send y_i - x.*{name}"):
        one.build()
