"""The training loss in training mode, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab.dropout_loss import COLUMN, dropout_loss
from tests import problem

MASS = np.array([5, 1, 9, 2, 2, 4])


BACKENDS = {
    "vmapped": fm.backends.vmapped,
    "sharded": lambda: fm.backends.sharded(inner=fm.backends.chunked(1)),
}


@pytest.mark.parametrize("mass", [None, MASS], ids=["sizes", "masses"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("at_once", [8, 64])
def test_it_is_a_mean_of_minibatch_means(mass, backend, at_once, monkeypatch):
    """A short last minibatch counts as a full one; dropout has a key per minibatch.

    With 8 examples at once a client's minibatches lie in several blocks.
    """
    monkeypatch.setattr("fedjax_mos.lab.dropout_loss._CPU", at_once)
    (x, y), parts = problem.arrays(), problem.partition()
    data = fm.federate(x, y, parts, mass=mass)
    plain = fm.losses.mean_loss(problem.tanh_net)
    seen = []

    def loss(params, batch, key):
        seen.append(key)
        noise = jax.random.uniform(key)  # what dropout would draw
        return plain(params, batch, None) + 0 * noise

    params = problem.tanh_params()
    measure = dropout_loss(loss, 4, BACKENDS[backend]())
    found = jax.jit(measure)(params, data, jax.random.key(0))
    assert seen and all(key is not None for key in seen)
    w, v = (np.asarray(params[n], float) for n in ("w", "v"))
    z = np.tanh(x.astype(float) @ w) @ v
    each = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(y)), y]
    rows = np.split(parts.order, np.cumsum(problem.SIZES)[:-1])
    means = [
        np.mean([each[own[s : s + 4]].mean() for s in range(0, len(own), 4)])
        for own in rows
    ]
    p = np.array(problem.SIZES if mass is None else mass)
    np.testing.assert_allclose(found, p @ means / p.sum(), rtol=1e-5)


def test_every_minibatch_draws_for_itself():
    """Equal masks in all minibatches would be no dropout of a training round."""

    def drawn(params, batch, key):
        return jax.random.uniform(key)

    measure = jax.jit(dropout_loss(drawn, 4, fm.backends.vmapped()))
    first = measure((), problem.data(), jax.random.key(0))
    assert first != measure((), problem.data(), jax.random.key(1))
    batches = [-(-size // 4) for size in problem.SIZES]
    p = np.array(problem.SIZES) / sum(problem.SIZES)
    # A mean of independent uniforms, within five of its standard deviations.
    spread = np.sqrt((p**2 / batches).sum() / 12)
    assert 1e-6 < abs(first - 0.5) < 5 * spread


@pytest.mark.thorough
def test_an_experiment_measures_both():
    """Dropout on is another number than dropout off, and only on request."""
    one = fm.Experiment(
        rounds=1,
        clients=6,
        cohort=2,
        dropout_loss=True,
        options={"model.dropout": 0.5},
    )
    frame = one.run(progress=False).frame
    on, off = frame[COLUMN].iloc[-1], frame["train_loss"].iloc[-1]
    assert jnp.isfinite(on) and abs(on - off) > 1e-3
