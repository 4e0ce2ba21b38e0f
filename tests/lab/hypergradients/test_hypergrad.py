"""Hypergradients: identities, memory, unstable horizons and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.hypergradients.checkpointed_rollout import (
    borders,
    checkpointed_rollout,
    segment_length,
)
from fedjax_mos.lab.hypergradients.hypergrad import differentiator
from fedjax_mos.lab.hypergradients.wrt import with_named
from tests import float64, problem
from tests.contracts import harness
from tests.contracts.test_hypergrad import made

LONG = ("tests/contracts/test_hypergrad.py", "-k", "central_differences or slope")
ROUNDS = 5
TINY = {
    "algorithm": "fedavg",
    "sampler": "ucs",
    "clients": 8,
    "cohort": 3,
    "rounds": ROUNDS,
    "steps": 2,
    "batch_size": 4,
    "model": "logistic",
}


@pytest.mark.thorough
def test_central_differences(pytestconfig):
    """Else tuning by gradient would go astray."""
    float64.run(pytestconfig.rootpath, *LONG)


@pytest.mark.slow
def test_central_differences_of_the_others(pytestconfig):
    """The same for every other algorithm."""
    float64.run(pytestconfig.rootpath, *LONG, "-m", "slow")


@pytest.fixture(scope="module")
def scalar():
    """One learning rate for everything, by forward mode and two seeds."""
    return fm.hypergrad(fm.Experiment(**TINY), ("lr", "server_lr"), seeds=2)


@pytest.mark.thorough
def test_one_rate_per_round_and_per_layer(scalar):
    """Rates of rounds and layers whose gradients do not add up to the one of all."""
    experiment = fm.Experiment(**TINY, options={"scale": 1.0})
    lr = experiment.parts["algorithm"].spec.options["lr"]
    _, named = with_named(experiment, ("scale",))
    wrt = {"lr": fm.Schedule(np.full(ROUNDS, lr)), **named}
    found = fm.hypergrad(experiment, wrt, seeds=2)
    assert (scalar.mode, found.mode) == ("forward", "reverse")
    assert found.value == pytest.approx(scalar.value, rel=1e-5)
    per_round = found.gradient["lr"].values
    assert per_round.shape == (ROUNDS,) and (per_round != 0).all()
    whole = float(scalar.gradient["lr"])
    assert per_round.sum() == pytest.approx(whole, rel=1e-3)
    per_layer = jax.tree.leaves(found.gradient["scale"])
    assert len(per_layer) == 2
    assert sum(per_layer) == pytest.approx(lr * whole, rel=1e-3)


def test_all_floats_of_the_algorithm_by_default():
    """Without names every float of the algorithm is differentiated, and no other."""
    named = {
        name: set(with_named(fm.Experiment(**TINY | change), None)[1])
        for name, change in {
            "fedavg": {},
            "fedmos": {"algorithm": "fedmos"},
            "clip": {"options": {"clip": 1.0}},
            "nested": {
                "algorithm": "fedopt",
                "options": {"server_optimizer": "sgd(learning_rate=1.0)"},
            },
        }.items()
    }
    assert named["fedavg"] == named["clip"] == {"lr", "server_lr"}
    assert named["fedmos"] == {"lr", "storm", "prox", "server_momentum"}
    assert named["nested"] == {"lr", "server_optimizer.learning_rate"}


def test_norm_and_growth_are_reported(scalar):
    """A norm of something else, or a horizon that is not the experiment's."""
    gradient = list(scalar.gradient.values())
    assert scalar.norm == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-5)
    assert scalar.rounds.tolist() == borders(ROUNDS).tolist()
    assert scalar.rounds[-1] == ROUNDS and not scalar.unstable
    assert 0.5 < scalar.growth[-1] < 2


def test_unstable_horizon_is_reported():
    """A gradient that explodes with the horizon and is returned as if it meant much."""
    traced = []

    def evaluate(state, stores):
        traced.append(state)
        return problem.evaluate()(state, stores)

    made_up = made("fedavg")._replace(evaluate=evaluate)
    at = differentiator(made_up, 30, "test_loss", mode="forward")
    tame = at({"lr": 0.3, "server_lr": 1.0})
    programs = len(traced)
    wild = at({"lr": jnp.float32(30.0), "server_lr": np.float64(1)})
    assert len(traced) == programs  # any kind of number takes the same program
    assert not tame.unstable
    assert "30 rounds" in wild.unstable and "smaller steps" in wild.unstable
    broken = at({"lr": 0.3, "server_lr": float("inf")})
    assert not np.isfinite(broken.norm) and broken.unstable


@pytest.mark.thorough
def test_memory_grows_like_the_root():
    """States of all rounds kept at once."""
    few, many = (temporary(rounds) for rounds in (20, 200))
    assert few < many < 5 * few


def temporary(rounds):
    """Bytes that the gradient through so many rounds needs at a time."""
    sim, data, key = harness.simulate("fedavg"), problem.data(), jax.random.key(0)

    def objective(lr, data):
        state = sim.init(problem.tanh_params(), data, key, {"algorithm": {"lr": lr}})
        state, _ = checkpointed_rollout(sim, data, state, key, rounds)
        return state.server.params["w"].sum()

    compiled = jax.jit(jax.grad(objective)).lower(0.3, data).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("rounds", [1, 2, 7, 16, 20, 53, 200])
def test_segments_are_about_the_root(rounds):
    """A horizon without a divisor near its root that is one long segment."""
    length = segment_length(rounds)
    assert rounds**0.5 / 2 - 1 <= length <= 2 * rounds**0.5
    assert (
        len(borders(rounds)) == -(-rounds // length) and borders(rounds)[-1] == rounds
    )


def test_it_is_a_rollout():
    """Rounds that are lost, or done twice, at the borders of segments."""
    sim, data, key = harness.simulate("fedavg"), problem.data(), jax.random.key(0)
    rounds, state = 17, harness.start(sim)  # a prime: the last segment is short
    end, path = jax.jit(lambda s: checkpointed_rollout(sim, data, s, key, rounds))(
        state
    )
    same, _ = jax.jit(lambda s: fm.rollout(sim, data, s, key, rounds))(state)
    assert int(end.round) == rounds and len(path["w"]) == len(borders(rounds)) == 5
    np.testing.assert_allclose(end.server.params["w"], same.server.params["w"], 1e-5)
    np.testing.assert_array_equal(path["w"][-1], end.server.params["w"])


@pytest.mark.parametrize(
    "codec",
    [
        fm.channels.top_k(0.3),
        fm.channels.random_k(0.3),
        fm.channels.scaled_sign(),
        fm.channels.quantise(3),
    ],
    ids=["top_k", "random_k", "sign", "quantise"],
)
def test_straight_through(codec):
    """A wrapper that changes messages, or a derivative that is not the identity's."""
    value = {"w": jnp.linspace(-1, 1, 10), "n": jnp.asarray(2.0)}
    key, change = jax.random.key(0), jax.tree.map(jnp.ones_like, value)
    plain = codec(value, key)
    through = fm.channels.straight_through(codec)
    sent, moved = jax.jvp(lambda v: through(v, key).value, (value,), (change,))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, sent, plain.value))
    assert jax.tree.all(jax.tree.map(jnp.array_equal, moved, change))
    assert through(value, key).bits == plain.bits


def test_ranks_have_no_derivative():
    """A gradient for a number of entries, which is whole."""
    value, key = jnp.linspace(-1, 1, 10), jax.random.key(0)
    slope = jax.grad(lambda f: fm.channels.random_k(f)(value, key).value.sum())(0.31)
    assert slope == 0


@pytest.mark.slow
def test_zero_and_straight_through_gradients():
    """An option that switches nothing, or ranks that pretend to have a derivative."""
    tiny = TINY | {"rounds": 2, "uplink": "compressed"}
    names = ("lr", "fraction")
    plain, through = (
        fm.hypergrad(fm.Experiment(**tiny, options={"straight_through": on}), names)
        for on in (False, True)
    )
    assert plain.value == through.value
    assert plain.gradient["fraction"] == through.gradient["fraction"] == 0
    assert plain.gradient["lr"] != pytest.approx(float(through.gradient["lr"]), 1e-3)


BAD = [
    ("lrr", {}, ("'lrr'", "algorithm.lr", "algorithm.server_lr")),
    ("lr", {"seeds": 0}, ("seeds", "got 0", "at least 1")),
    (("lrr",), {}, ("'lrr'", "algorithm.lr", "algorithm.server_lr")),
    (("storm",), {}, ("'storm'", "algorithm.lr")),
    (("steps",), {}, ("steps", "no derivative", "shape", "algorithm.lr")),
    (("cohort",), {}, ("cohort", "no derivative")),
    (("smallest",), {}, ("smallest", "no derivative", "data")),
    (("clip",), {}, ("clip", "off", "options")),
    ((), {}, ("wrt", "none")),
    ({"lr": -1.0}, {}, ("lr", "(0, inf", "-1")),
    ({"lr": fm.Schedule([0.1] * 4)}, {}, ("schedule", "lr", "5 rounds", "got 4")),
    (("lr",), {"objective": "loss"}, ("'loss'", "test_loss, train_loss, valid_loss")),
    (("lr",), {"objective": "valid_accuracy"}, ("valid_loss", "piecewise constant")),
    (("lr",), {"mode": "sideways"}, ("mode", "'sideways'", "forward", "reverse")),
    (("lr",), {"seeds": 0}, ("seeds", "got 0", "at least 1")),
]


@pytest.mark.parametrize(("wrt", "named", "fragments"), BAD)
def test_bad_input(wrt, named, fragments):
    """A mistake that ends in a traceback of the compiler."""
    with pytest.raises(ValueError) as error:
        fm.hypergrad(fm.Experiment(**TINY), wrt, **named)
    for fragment in fragments:
        assert fragment in str(error.value)


@pytest.mark.parametrize("change", [{"backend": "debug"}, {"sampler": "clustered"}])
def test_what_runs_on_the_host_is_refused(change):
    """A Python loop under jit, or clusters that are never revised."""
    with pytest.raises(ValueError, match="cannot be differentiated"):
        fm.hypergrad(fm.Experiment(**TINY | change), ("lr",))
