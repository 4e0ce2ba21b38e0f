"""An optax transform in the place of the client's step, or of the server's."""

import numpy as np
import optax
import pytest

import fedjax_mos as fm
from tests import problem
from tests.algorithms.reference import World, assert_partial, assert_path, run

pytestmark = pytest.mark.thorough

LR, MOMENTUM = 0.4, 0.7
SGD = fm.spec(optax.sgd, learning_rate=LR)
HEAVY = fm.spec(optax.sgd, learning_rate=LR, momentum=MOMENTUM)
DECAYS = World(epochs=2, clip=0.4, weight_decay=0.05, epoch_decay=0.8)
SHAPED = {
    "params": problem.tanh_params(),
    "loss": fm.losses.mean_loss(problem.tanh_net),
    "more": {"forward": problem.tanh_forward},
}


@pytest.mark.parametrize("world", [World(), DECAYS], ids=["plain", "decays"])
@pytest.mark.parametrize("name", ["fedopt", "fedavg", "moon"])
def test_sgd_is_the_plain_step(name, world):
    """With optax.sgd the client goes where y - lr g would take it."""
    factory = getattr(fm.algorithms, name)
    more = SHAPED if name == "moon" else {}
    own = fm.spec(factory, client_optimizer=SGD)  # whose lr is another one
    got, expected = (run(a, world, **more) for a in (own, fm.spec(factory, lr=LR)))
    np.testing.assert_allclose(got.path, expected.path, rtol=1e-6, atol=1e-6)
    assert abs(expected.path[-1] - expected.start).max() > 0.1
    assert own.hp["lr"] != LR and own.hp["client_optimizer"] == {"learning_rate": LR}


def heavy_ball(x, cohorts, world, *, kept):
    """y <- y - decay^e lr m, m <- momentum m + g + wd y; a client's m stays or not."""
    memory = {}
    for cohort in cohorts:
        total = 0
        for i, w in cohort:
            y, m = x, memory.get(i, 0) if kept else 0
            for batch, epoch in world.batches(i):
                m = MOMENTUM * m + world.g(y, batch) + (world.weight_decay or 0) * y
                y = y - LR * (world.epoch_decay or 1) ** epoch * m
            memory[i], total = m, total + w * (y - x)
        x = x + total
        yield x


@pytest.mark.parametrize("world", [World(), DECAYS], ids=["plain", "decays"])
@pytest.mark.parametrize("state", ["reset", "kept"])
def test_momentum_is_new_every_round_or_stays(state, world):
    """The optimiser's state starts anew, or goes on where the client left it."""
    options = {"client_optimizer": HEAVY, "client_state": state}
    got = run(fm.spec(fm.algorithms.fedavg, **options), world)
    assert_partial(got.cohorts, returning=True)
    both = {
        kept: list(heavy_ball(got.start, got.cohorts, world, kept=kept))
        for kept in (False, True)
    }
    assert_path(got.path, both[state == "kept"])
    # Round 2 is the first with a client that comes back.
    np.testing.assert_array_equal(both[True][:2], both[False][:2])
    assert abs(both[True][2] - both[False][2]).max() > 1e-3


def test_a_kept_optimizer_leaves_the_objectives_memory_alone():
    """MOON's last model and the optimiser's state live side by side."""
    options = {"client_optimizer": SGD, "client_state": "kept"}
    got = run(fm.spec(fm.algorithms.moon, **options), **SHAPED)
    expected = run(fm.spec(fm.algorithms.moon, lr=LR), **SHAPED)
    np.testing.assert_allclose(got.path, expected.path, rtol=1e-6, atol=1e-6)
    assert got.state.clients.mine.memory.met.all()


def test_the_servers_sgd_is_fedavg():
    """x + mean delta is a step of optax.sgd(1.0) on minus the mean delta."""
    one = fm.spec(optax.sgd, learning_rate=1.0)
    expected = run(fm.spec(fm.algorithms.fedavg, lr=LR)).path
    for server in (one, optax.sgd(1.0)):
        own = fm.spec(fm.algorithms.fedopt, lr=LR, server_optimizer=server)
        np.testing.assert_array_equal(run(own).path, expected)


@pytest.mark.parametrize("option", ["client_optimizer", "client_state"])
def test_a_method_that_writes_its_own_step_says_so(option):
    """FedMoS's step is its paper's: an optimiser in its place is refused with why."""
    with pytest.raises(ValueError, match="paper writes its own local step"):
        fm.Experiment(algorithm="fedmos", options={option: "sgd(learning_rate=0.1)"})
    with pytest.raises(ValueError, match="paper writes its own server step"):
        fm.Experiment(algorithm="fedmos", options={"server_optimizer": SGD})
    with pytest.raises(ValueError, match="fedmos has no option 'client_optimizer'"):
        fm.spec(fm.algorithms.fedmos, client_optimizer=SGD)
