"""The toy population that most tests share: six unequal clients, ten numbers or so."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm

SIZES = (3, 10, 7, 12, 6, 5)
FEATURES, HIDDEN, CLASSES = 3, 2, 3


class Server(NamedTuple):
    """The server of a test's own algorithm: a model, and what it has seen."""

    params: Any
    seen: Any = ()


def arrays(seed=0):
    """Features and labels of all clients' examples."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(sum(SIZES), FEATURES))
    y = (x @ rng.normal(size=(FEATURES, CLASSES))).argmax(1)
    return x.astype(jnp.zeros(()).dtype), y


def partition(seed=0):
    rng = np.random.default_rng(seed)
    return fm.partitions.Partition(rng.permutation(sum(SIZES)), np.array(SIZES))


def data():
    return fm.federate(*arrays(), partition())


def tanh_params(seed=0):
    """A smooth two-layer net, so that central differences are meaningful."""
    rng = np.random.default_rng(seed)
    return {
        "w": jnp.asarray(rng.normal(size=(FEATURES, HIDDEN))),
        "v": jnp.asarray(rng.normal(size=(HIDDEN, CLASSES))),
    }


def tanh_net(params, x, key):
    return jnp.tanh(x @ params["w"]) @ params["v"]


def softmax_params():
    """Multinomial logistic regression, whose gradient NumPy can write in two lines."""
    return {
        "w": jnp.full((FEATURES, CLASSES), 0.1),
        "b": jnp.linspace(-0.2, 0.2, CLASSES),
    }


def softmax_net(params, x, key):
    return x @ params["w"] + params["b"]


def cyclic(steps, batch_size):
    """A plan without randomness: the client's examples in order, over and over."""

    def plan(view, key):
        position = jnp.arange(steps * batch_size).reshape(steps, batch_size)
        return fm.types.Plan(
            rows=view.order[view.offset + position % view.size],
            active=None,
            epoch=jnp.zeros(steps, jnp.int32),
            keys=jax.random.split(key, steps),
        )

    return plan


def tools(cohort):
    """What a sampler of `cohort` clients is built with."""
    return fm.types.SamplerTools(cohort, fm.losses.mean_loss(softmax_net))


def work(**options):
    """Local work of three steps of four examples on `tanh_net`."""
    loss, plan = fm.losses.mean_loss(tanh_net), fm.plans.with_replacement(3, 4)
    return fm.local_work(loss, plan, forward=tanh_forward, **options)


def evaluate():
    return fm.evaluator(fm.losses.measures(tanh_net))


def fixed_cohort(ids, weights=None, mask=None):
    """A sampler that always chooses the same slots."""
    ids = jnp.asarray(ids)
    weights = jnp.full(len(ids), 1 / len(ids)) if weights is None else weights
    mask = jnp.ones(len(ids), bool) if mask is None else mask
    cohort = fm.types.Cohort(ids, jnp.asarray(weights), jnp.asarray(mask))
    return fm.types.Sampler(lambda view, key: (), lambda s, view, key: (cohort, s))


def tanh_forward(params, h, start, key):
    """The two stages of `tanh_net`."""
    hidden = jnp.tanh(h @ params["w"]) if start == 0 else h
    logits = hidden @ params["v"]
    return (hidden, logits) if start == 0 else (logits,)
