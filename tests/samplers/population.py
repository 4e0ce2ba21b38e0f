"""Clients that are nothing but their sizes, and many cohorts drawn from them."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

import fedjax_mos as fm

KEYS = 20_000
ALPHA = 1e-4  # level of every chi-square test; seeds are fixed


class Server(NamedTuple):
    """What most samplers see of an algorithm: its model."""

    params: Any


def tools(cohort, loss=None):
    """What a sampler is built with; most use no loss."""
    return fm.types.SamplerTools(cohort, loss)


def see(data, params=(), round=0):
    """What a sampler sees."""
    return fm.types.SamplerView(jnp.asarray(round, jnp.int32), Server(params), data)


def population(sizes, x=None):
    """Clients of given sizes; most samplers look at no example."""
    sizes = np.asarray(sizes)
    order = np.arange(1 if x is None else sizes.sum())
    return fm.types.FederatedData(
        x=jnp.zeros((1, 1)) if x is None else jnp.asarray(x, jnp.float32),
        y=jnp.zeros(len(order), jnp.int32),
        order=jnp.asarray(order, jnp.int32),
        offset=jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
        size=jnp.asarray(sizes, jnp.int32),
        largest=int(sizes.max()) if x is not None else 0,
    )


def draw(make, cohort, sizes, keys=KEYS):
    """Cohorts as NumPy, and the weight of every client in them [keys, N]."""
    drawn = jax.device_get(_draw(make, cohort, keys)(population(sizes)))
    return drawn, weights_of(drawn, len(sizes))


@cache
def _draw(make, cohort, keys):
    sampler, root = make(tools(cohort)), jax.random.key(7)

    @jax.jit
    def many(data):
        state = sampler.init(see(data), root)
        sample = jax.vmap(lambda key: sampler.sample(state, see(data), key)[0])
        return sample(jax.random.split(root, keys))

    return many


def weights_of(cohort, clients):
    per_client = np.zeros((len(cohort.ids), clients))
    rows = np.arange(len(cohort.ids))[:, None]
    np.add.at(per_client, (rows, cohort.ids), np.where(cohort.mask, cohort.weights, 0))
    return per_client


def unlike(counts, probabilities):
    """The p-value of counts under a distribution, cells below 5 pooled."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float)
    expected = expected * counts.sum() / expected.sum()
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    small = max(int((expected.cumsum() < 5).sum()), 0)
    counts = np.concatenate([[counts[: small + 1].sum()], counts[small + 1 :]])
    expected = np.concatenate([[expected[: small + 1].sum()], expected[small + 1 :]])
    return stats.chisquare(counts, expected).pvalue


def near(mean, expected, error):
    """Within five standard errors."""
    np.testing.assert_array_less(abs(mean - expected), 5 * error + 1e-6)
