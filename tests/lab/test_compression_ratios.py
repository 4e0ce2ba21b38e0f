"""The ratios of Assumption C.1 against NumPy, and where they must be zero."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import diagnostics
from fedjax_mos.lab.compression_ratios import RATIOS
from tests import problem
from tests.algorithms.reference import CLIENTS, World, softmax_gradient

LR, KAPPA, KEPT = 0.5, 1.2, 3  # of 12 numbers
KEY = jax.random.key(4)
MEASURE = fm.losses.measures(problem.softmax_net)
UPLINKS = {
    "lazy": ("nla_compressed", {}),
    "previous": ("nla_compressed", {"reference": "raw_prev"}),
    "accelerated": ("aa_compressed", {}),
    "rule outside": ("aa_compressed", {"ef_reference": "compressed"}),
    "dense": ("nla", {"kappa": 0.4}),
    "no rule": ("with_feedback", {}),
    "neither": ("identity", {}),
}


def simulated(name):
    """FedAvg with an uplink, and the state after three rounds."""
    recipe, options = UPLINKS[name]
    if recipe not in ("identity", "with_feedback"):
        options = {"kappa": KAPPA} | options
    if "compressed" in recipe or recipe == "with_feedback":
        options = options | {"fraction": KEPT / 12}
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg, lr=LR, server_lr=0.5),
        World().work(fm.losses.mean_loss(problem.softmax_net)),
        fm.spec(fm.samplers.uniform),
        cohort=4,
        uplink=fm.spec(getattr(fm.channels, recipe), **options),
    )
    data = problem.data()
    state = sim.init(problem.softmax_params(), data, KEY)
    for t in range(3):
        state, _ = jax.jit(sim.step)(data, state, jax.random.fold_in(KEY, t))
    return sim, data, state


def flat(params):
    return np.concatenate(
        [np.asarray(params[n], float).reshape(len(params[n]), -1) for n in ("b", "w")],
        axis=1,
    )


def largest(v):
    """Top-k: all but the KEPT largest entries are lost."""
    return np.where(np.abs(v) >= np.sort(np.abs(v))[-KEPT], v, 0)


def memories(name, state):
    """Residuals and references of all clients; None where a channel has none."""
    up = state.clients.up[0]
    if name in ("lazy", "previous", "accelerated"):
        error, rule = up.error, up.inner
    elif name == "rule outside":
        error, rule = up.inner.error, up
    else:
        error, rule = getattr(up, "error", None), up if name == "dense" else None
    which = {"previous": "raw", "lazy": "last", "dense": "last"}.get(name, "previous")
    error = None if error is None else flat(error)
    return error, None if rule is None else flat(getattr(rule, which))


@pytest.mark.parametrize("name", UPLINKS)
def test_ratios_are_their_definitions(name):
    """A residual, a reference or a mean over the wrong clients is another number."""
    sim, data, state = simulated(name)
    diagnose = diagnostics.diagnostics(sim, MEASURE, RATIOS)
    found = jax.jit(diagnose)(state, data, KEY)
    params = state.server.params
    x = np.concatenate([np.ravel(params[n]).astype(float) for n in ("b", "w")])
    moved = np.array(
        [
            World().walk(x, i, LR, lambda y, b: softmax_gradient(y, *b)) - x
            for i in range(len(CLIENTS))
        ]
    )
    error, reference = memories(name, state)
    whole = moved if error is None else moved + error
    dense = name in ("dense", "neither")
    sent = whole if dense else np.array([largest(v) for v in whole])
    size = np.linalg.norm(moved.mean(axis=0))
    together = whole.mean(axis=0) if dense else largest(whole.mean(axis=0))
    expected = np.linalg.norm(together - sent.mean(axis=0)) / size
    np.testing.assert_allclose(
        found["compression_ratio"], expected, rtol=1e-3, atol=1e-6
    )
    assert (expected > 0.01) != dense
    if reference is None:
        assert found["rule_ratio"] == 0
        return
    away = np.linalg.norm(sent - reference, axis=1)
    known = np.linalg.norm(reference, axis=1)
    kappa = UPLINKS[name][1].get("kappa", KAPPA)
    fires = (known > 0) & (away <= kappa * known)
    assert 0 < fires.sum() < len(CLIENTS)
    expected = np.linalg.norm((sent - reference)[fires].mean(axis=0)) / size
    np.testing.assert_allclose(found["rule_ratio"], expected, rtol=1e-3)


def test_an_experiment_has_them():
    """Columns of a frame, which say what they are."""
    one = fm.Experiment(
        algorithm="fednlaca", rounds=2, clients=6, cohort=3, model="logistic",
        diagnostics=RATIOS, options={"uplink.kappa": 2.0},
    )  # fmt: skip
    last = one.run(progress=False).frame.iloc[-1]
    assert last["compression_ratio"] > 0 and last["rule_ratio"] >= 0
