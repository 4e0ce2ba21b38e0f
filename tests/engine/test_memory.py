"""What a round needs beside its arguments, as XLA counts it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos import models

pytestmark = pytest.mark.thorough

FEATURES, WIDTH, BATCH, CHUNK = 100, 50, 4, 2
NUMBERS = {
    "fedavg": {"lr": 0.1, "server_lr": 1.0},
    "fedmos": {"lr": 0.1, "storm": 0.1, "prox": 0.01, "server_momentum": 0.5},
}
# Trees the size of the model that one client at work needs.
TREES = {"fedavg": 4, "fedmos": 7}
MODEL = 4 * ((FEATURES + 1) * WIDTH + (WIDTH + 1) * 10)
ACTIVATIONS = 4 * BATCH * (2 * FEATURES + 4 * WIDTH + 8 * 10)  # forward and backward


@pytest.fixture(autouse=True)
def _optimised():
    """The other tests switch most of XLA off, and with it the reuse of buffers."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


def temporaries(method, clients=20, cohort=4, steps=4):
    """Bytes beside arguments and results of one round."""
    net = models.mlp(10, hidden=(WIDTH,))

    def logits(params, x, key):
        return models.apply(net, params, x, key)

    sim = fm.simulation(
        fm.spec(getattr(fm.algorithms, method), **NUMBERS[method]),
        fm.local_work(
            fm.losses.mean_loss(logits), fm.plans.with_replacement(steps, BATCH)
        ),
        fm.spec(fm.samplers.uniform),
        cohort=cohort,
        backend=fm.backends.chunked(CHUNK),
    )
    x = np.zeros((clients * BATCH, FEATURES), np.float32)
    y = np.zeros(len(x), int)
    parts = fm.partitions.Partition(np.arange(len(x)), np.full(clients, BATCH))
    data, key = fm.federate(x, y, parts), jax.random.key(0)
    state = sim.init(models.init(net, key, jnp.asarray(x[:1])), data, key)
    compiled = jax.jit(sim.step, donate_argnums=1).lower(data, state, key).compile()
    return compiled.memory_analysis().temp_size_in_bytes


MORE = {
    "fedavg": [{"cohort": 8}],
    "fedmos": [{"cohort": 8}, {"steps": 8}, {"clients": 40}],
}


@pytest.mark.parametrize("method", TREES)
def test_a_round_needs_no_more_than_its_chunk(method):
    """Memory that grows with the cohort, the local steps or the population."""
    base = temporaries(method)
    bound = CHUNK * (TREES[method] * MODEL + ACTIVATIONS) + 3 * MODEL
    assert MODEL < base <= bound
    for more in MORE[method]:
        assert temporaries(method, **more) <= 1.05 * base, more
