"""Where the toy clients' examples are, by the partition alone."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm
from fedjax_mos.data.store import views
from fedjax_mos.types import Plan
from tests import problem

N, LARGEST = len(problem.SIZES), max(problem.SIZES)
LOSS = fm.losses.mean_loss(problem.softmax_net)


def rows_of(client):
    """The client's rows of the store, by the partition alone."""
    order, size = problem.partition()
    end = np.cumsum(size)[client]
    return order[end - size[client] : end]


def view(client):
    return views(problem.data(), jnp.int32(client))


def over_clients(fn):
    """`fn(view)` for all clients at once."""
    return jax.vmap(lambda client: fn(views(problem.data(), client)))(jnp.arange(N))


def whole(steps):
    """A plan whose every batch is all of the client's data."""

    def plan(view, key):
        position = jnp.arange(view.largest)
        rows = view.order[jnp.minimum(view.offset + position, len(view.order) - 1)]
        rows = jnp.where(position < view.size, rows, -1)
        return Plan(
            rows=jnp.tile(rows, (steps, 1)),
            active=None,
            epoch=jnp.zeros(steps, jnp.int32),
            keys=jax.random.split(key, steps),
        )

    return plan


def flat(params):
    """Rows of w, then b, as float64."""
    return np.vstack([params["w"], params["b"]]).astype(float)


def softmax_gradient(theta, rows):
    """Mean cross-entropy gradient over rows of the store, in NumPy."""
    x, y = problem.arrays()
    x, y = x[rows].astype(float), y[rows]
    p = np.exp(x @ theta[:-1] + theta[-1])
    r = (p / p.sum(1, keepdims=True) - np.eye(problem.CLASSES)[y]) / len(y)
    return np.vstack([x.T @ r, r.sum(0)])
