"""Methods that change the local loss, on a three-stage net written in NumPy.

Gradients of the NumPy losses by complex steps: exact to rounding, no formula to share
with the package. Every method on FedAvg's server and on FedACG's ("+ACG").
"""

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from tests import problem
from tests.algorithms.reference import (
    CLIENTS,
    World,
    assert_partial,
    assert_path,
    run,
)

pytestmark = pytest.mark.thorough

SHAPES = ((problem.FEATURES, 2), (2, 3), (3, problem.CLASSES))
ENDS = np.cumsum([a * b for a, b in SHAPES])


def params():
    rng = np.random.default_rng(3)
    sized = zip("abc", SHAPES, strict=True)
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in sized}


def forward(params, h, start, key):
    """The package's side: outputs of the stages from `start` on."""
    outputs = []
    for name in "abc"[start:]:
        h = h @ params[name]
        h = h if name == "c" else jnp.tanh(h)
        outputs.append(h)
    return tuple(outputs)


def stages(theta, h, start=0):
    """The same in NumPy, for complex parameters too."""
    sized = zip(np.split(theta, ENDS[:-1]), SHAPES, strict=True)
    weights = [w.reshape(shape) for w, shape in sized]
    outputs = []
    for level in range(start, 3):
        h = h @ weights[level]
        h = h if level == 2 else np.tanh(h)
        outputs.append(h)
    return outputs


def log_softmax(z, keep=True):
    """Over the classes to keep; -inf elsewhere."""
    top = np.where(keep, z.real, -np.inf).max(1, keepdims=True)
    mass = np.where(keep, np.exp(z - top), 0).sum(1, keepdims=True)
    return np.where(keep, z - top - np.log(mass), -np.inf)


def nll(z, y):
    return -log_softmax(z)[np.arange(len(y)), y].mean()


def divergence(p, q, keep):
    """Batch mean of KL(p | q) for log-probabilities over the classes to keep."""
    p, q = np.where(keep, p, 0), np.where(keep, q, 0)
    return np.where(keep, np.exp(p) * (p - q), 0).sum(1).mean()


def ce(theta, x, y, anchor, last, counts):
    return nll(stages(theta, x)[-1], y)


def moon(theta, x, y, anchor, last, counts, *, weight, temperature):
    if last is None:
        return ce(theta, x, y, anchor, last, counts)
    z, kept, old = (stages(m, x)[-2] for m in (theta, anchor, last))

    def similarity(a, b):
        lengths = np.sqrt((a * a).sum(1)) * np.sqrt((b * b).sum(1))
        return np.exp((a * b).sum(1) / lengths / temperature)

    near, far = similarity(z, kept), similarity(z, old)
    term = -np.log(near / (near + far)).mean()
    return ce(theta, x, y, anchor, last, counts) + weight * term


def fedmlb(theta, x, y, anchor, last, counts, *, ce_weight, kl_weight):
    hidden = stages(theta, x)
    z, total = log_softmax(hidden[-1]), nll(hidden[-1], y)
    for level in (0, 1):
        b = stages(anchor, hidden[level], level + 1)[-1]
        total = total + ce_weight * nll(b, y) / 2
        total = total + kl_weight * divergence(log_softmax(b), z, True) / 2
    return total


def fedlc(theta, x, y, anchor, last, counts, *, temperature, include_true=True):
    z = stages(theta, x)[-1] - temperature * np.maximum(counts, 1) ** -0.25
    true = np.eye(problem.CLASSES, dtype=bool)[y]
    keep = np.broadcast_to(counts > 0, true.shape) & (include_true | ~true)
    mass = np.where(keep, np.exp(z), 0).sum(1)
    return -np.log(np.exp(z[true]) / mass).mean()


def fedntd(theta, x, y, anchor, last, counts, *, ce_weight, weight, temperature):
    z, teacher = stages(theta, x)[-1], stages(anchor, x)[-1]
    others = ~np.eye(problem.CLASSES, dtype=bool)[y]
    p, q = (log_softmax(a / temperature, others) for a in (teacher, z))
    return ce_weight * nll(z, y) + weight * temperature**2 * divergence(p, q, others)


def feddecorr(theta, x, y, anchor, last, counts, *, weight):
    *_, h, z = stages(theta, x)
    if len(y) == 1:
        return nll(z, y)
    h = h - h.mean(0)
    h = h / np.sqrt((h * h).sum(0) / (len(y) - 1) + 1e-8)
    off = (h.T @ h)[~np.eye(h.shape[1], dtype=bool)]
    return nll(z, y) + weight * (off**2).mean() / len(y)


def slope(loss, theta):
    """The gradient by complex steps."""
    steps = 1e-30j * np.eye(theta.size)
    return np.array([loss(theta + step).imag for step in steps]) / 1e-30


def expected(loss, x, cohorts, world, *, lr, server_lr=1.0, server_momentum=0.0, **hp):
    """FedACG's server (FedAvg's without momentum), clients that keep their model."""
    m, last = 0, {}
    for cohort in cohorts:
        ahead, delta = x + server_momentum * m, 0
        for i, w in cohort:
            counts = np.bincount(CLIENTS[i][1], minlength=problem.CLASSES)
            known = (ahead, last.get(i), counts)

            def direction(y, batch, known=known):
                return slope(lambda p: loss(p, *batch, *known, **hp), y)

            last[i] = world.walk(ahead, i, lr, direction)
            delta = delta + w * (last[i] - ahead)
        m = server_momentum * m + delta
        x = x + server_lr * m
        yield x


CONTRAST = {"weight": 0.8, "temperature": 0.4}
BRANCHES = {"ce_weight": 0.7, "kl_weight": 0.4}
DISTIL = {"ce_weight": 0.7, "weight": 0.6, "temperature": 1.5}
LC = {"temperature": 0.9}
LC_ORIGINAL = LC | {"include_true": False}
DECORR = {"weight": 0.05}  # more amplifies float32 rounding
CASES = {
    "moon": (moon, CONTRAST),
    "fedmlb": (fedmlb, BRANCHES),
    "fedlc": (fedlc, LC),
    "fedlc original": (fedlc, LC_ORIGINAL),
    "fedntd": (fedntd, DISTIL),
    "feddecorr": (feddecorr, DECORR),
}


@pytest.mark.parametrize("server", ["", "_acg"])
@pytest.mark.parametrize("case", CASES)
def test_matches_the_paper(case, server):
    """A wrong anchor, temperature, mask or missing gradient path fails here."""
    loss, numbers = CASES[case]
    hp = {"lr": 0.3} | ({"server_momentum": 0.6} if server else {"server_lr": 0.8})
    factory = catalog.ALGORITHMS[case.split()[0] + server].factory
    world = World(epochs=1)  # short batches, one of them a single example
    got = run(
        fm.spec(factory, **hp, **numbers),
        world,
        params=params(),
        loss=fm.losses.mean_loss(lambda p, x, key: forward(p, x, 0, key)[-1]),
        more={"forward": forward},
    )
    assert_partial(got.cohorts, returning=True)
    path = expected(loss, got.start, got.cohorts, world, **hp, **numbers)
    assert_path(got.path, path)
