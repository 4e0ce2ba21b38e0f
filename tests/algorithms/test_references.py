"""Every method without client state against a NumPy program written from its paper.

Softmax regression, plans without randomness, unequal clients, partial participation,
weights that do not sum to 1. The cohorts and their weights are taken from the run:
samplers have tests of their own. The references yield the model after every round.
The same file runs in float64 through tests/float64.py.
"""

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from tests import problem
from tests.algorithms.reference import (
    STEPS,
    Case,
    World,
    assert_partial,
    assert_path,
)


def fedavg(x, cohorts, world, *, lr, server_lr, prox=0.0):
    for t, cohort in enumerate(cohorts):
        x = x + server_lr * world.sgd(x, cohort, world.lr(lr, t), prox)
        yield x


def fedavgm(x, cohorts, world, *, lr, server_lr, server_momentum):
    m = 0
    for t, cohort in enumerate(cohorts):
        m = server_momentum * m + world.sgd(x, cohort, world.lr(lr, t))
        x = x + server_lr * m
        yield x


def slowmo(x, cohorts, world, *, lr, server_lr, server_momentum):
    u = 0
    for t, cohort in enumerate(cohorts):
        gamma = world.lr(lr, t)
        average = x + world.sgd(x, cohort, gamma)
        u = server_momentum * u + (x - average) / gamma
        x = x - server_lr * gamma * u
        yield x


def fedadagrad(x, cohorts, world, *, lr, server_lr, b1, eps):
    m, v = 0, eps**2
    for t, cohort in enumerate(cohorts):
        delta = world.sgd(x, cohort, world.lr(lr, t))
        m, v = b1 * m + (1 - b1) * delta, v + delta**2
        x = x + server_lr * m / (np.sqrt(v) + eps)
        yield x


def fedadam(x, cohorts, world, *, lr, server_lr, b1, b2, eps):
    m, v = 0, eps**2
    for t, cohort in enumerate(cohorts):
        delta = world.sgd(x, cohort, world.lr(lr, t))
        m, v = b1 * m + (1 - b1) * delta, b2 * v + (1 - b2) * delta**2
        x = x + server_lr * m / (np.sqrt(v) + eps)
        yield x


def fedyogi(x, cohorts, world, *, lr, server_lr, b1, b2, eps):
    m, v = 0, eps**2
    for t, cohort in enumerate(cohorts):
        delta = world.sgd(x, cohort, world.lr(lr, t))
        m = b1 * m + (1 - b1) * delta
        v = v - (1 - b2) * delta**2 * np.sign(v - delta**2)
        x = x + server_lr * m / (np.sqrt(v) + eps)
        yield x


def fedams(
    x,
    cohorts,
    world,
    *,
    lr,
    server_lr,
    b1,
    b2,
    eps,
    option=1,
    bias_correction=False,
    eps_inside=False,
):
    m = v = largest = 0
    for t, cohort in enumerate(cohorts):
        delta = world.sgd(x, cohort, world.lr(lr, t))
        m, v = b1 * m + (1 - b1) * delta, b2 * v + (1 - b2) * delta**2
        largest = np.maximum(largest, v)
        if option == 1:
            largest = np.maximum(largest, eps)
        rate, root = server_lr, np.sqrt(largest)
        if bias_correction:
            rate, root = rate / (1 - b1 ** (t + 1)), root / np.sqrt(1 - b2 ** (t + 1))
        if eps_inside:  # diag(v^ + eps)^(1/2)
            x = x + rate * m / np.sqrt(root**2 + eps)
        else:
            x = x + rate * m / (root + (eps if option == 2 else 0))
        yield x


def fedcm(x, cohorts, world, *, lr, server_lr, mix, decay_inside=False):
    """D is an average gradient: each client's displacement over its own distance."""
    D, decay = np.zeros_like(x), world.weight_decay or 0
    outside = world._replace(weight_decay=None) if decay_inside else world
    for t, cohort in enumerate(cohorts):
        rate, new = world.lr(lr, t), 0

        def direction(y, batch, D=D):
            inner = decay * y if decay_inside else 0
            return mix * (world.g(y, batch) + inner) + (1 - mix) * D

        for i, w in cohort:
            y = outside.walk(x, i, rate, direction)
            new = new - w * (y - x) / sum(world.rates(i, rate))
        D = new
        far = np.mean([sum(world.rates(i, rate)) for i, _ in cohort])
        x = x - server_lr * far * D
        yield x


def mimelite(x, cohorts, world, *, lr, server_momentum, mime=False):
    m, beta = 0, server_momentum
    for t, cohort in enumerate(cohorts):
        c = sum(w * world.full(x, i) for i, w in cohort)

        def direction(y, batch, x=x, c=c, m=m):
            g = world.g(y, batch)
            g = g - world.g(x, batch) + c if mime else g
            return (1 - beta) * g + beta * m

        rate = world.lr(lr, t)
        x = x + sum(w * (world.walk(x, i, rate, direction) - x) for i, w in cohort)
        m = beta * m + (1 - beta) * c
        yield x


def mime(x, cohorts, world, **numbers):
    return mimelite(x, cohorts, world, mime=True, **numbers)


def stem(x, cohorts, world, *, lr, storm, own_init=False):
    """Without own_init round 0 only makes the first direction."""
    shared = None
    for t, cohort in enumerate(cohorts):
        if shared is None and not own_init:
            shared = sum(w * world.full(x, i) for i, w in cohort)
            yield x
            continue
        moved = directions = 0
        for i, w in cohort:
            d = world.full(x, i) if shared is None else shared
            own = world.rates(i, world.lr(lr, t))
            rates, y = [own[0], *own[:-1]], x  # a step has the epoch that made its d
            for (batch, _), rate in zip(world.batches(i), rates, strict=True):
                before, y = y, world.step(y, d, rate)
                d = world.g(y, batch) + (1 - storm) * (d - world.g(before, batch))
            moved, directions = moved + w * (y - x), directions + w * d
        x, shared = x + moved, directions
        yield x


def spider(world, x, i, lr):
    """Where the full gradient and then its recursive estimates lead from x."""
    d, rates = world.full(x, i), world.rates(i, lr)
    before, y = x, world.step(x, d, rates[0])
    for (batch, _), rate in zip(world.batches(i)[1:], rates[1:], strict=True):
        d = world.g(y, batch) + d - world.g(before, batch)
        before, y = y, world.step(y, d, rate)
    return y


def fedglomo(x, cohorts, world, *, lr, mix):
    u, before = None, x
    for t, cohort in enumerate(cohorts):
        rate, G, change = world.lr(lr, t), 0, 0
        for i, w in cohort:
            new = x - spider(world, x, i, rate)
            old = before - spider(world, before, i, rate)
            G, change = G + w * new, change + w * (new - old)
        u = G if u is None else mix * G + (1 - mix) * (u + change)
        before, x = x, x - u
        yield x


def fedlomo(x, cohorts, world, *, lr):
    for t, cohort in enumerate(cohorts):
        rate = world.lr(lr, t)
        x = x + sum(w * (spider(world, x, i, rate) - x) for i, w in cohort)
        yield x


def fedmos(x, cohorts, world, *, lr, storm, prox, server_momentum, first_batch="full"):
    """Algorithm 1 of the paper, with its own factor eta I of the current round."""
    u = 0
    for t, cohort in enumerate(cohorts):
        rate, total = world.lr(lr, t), 0
        for i, w in cohort:
            batches, rates = world.batches(i), world.rates(i, rate)
            before, y, d = x, x, 0
            for k, (batch, _) in enumerate(batches):
                if k:
                    d = world.g(y, batch) + (1 - storm) * (d - world.g(before, batch))
                elif first_batch == "full":
                    d = world.full(y, i)
                else:
                    d = world.g(y, batch)
                before, y = y, world.step(y, d, rates[k]) - prox * (y - x)
            total = total + w * (y - x)
        u = server_momentum * u - total / (rate * STEPS)
        x = x - rate * STEPS * u
        yield x


def fedmos_release(x, cohorts, world, *, lr, storm, prox, server_momentum):
    """The released optimiser, buffers and all (section 2.4 of our notes on it)."""
    u = 0
    for t, cohort in enumerate(cohorts):
        total = 0
        for i, w in cohort:
            y, stored = x, 0
            for k, (batch, _) in enumerate(world.batches(i)):
                g = world.g(y, batch)
                if k == 0:
                    d = g  # the stored gradient stays zero for the second step
                else:
                    d, stored = g + (1 - storm) * (d - stored), g
                y = y - lr * d - prox * (y - x)
            total = total + w * (y - x)
        if t == 0:  # never enters the momentum
            x = x + total
        else:
            u = server_momentum * u - total / (lr * STEPS)
            x = x - lr * STEPS * u
        yield x


def fedacg(x, cohorts, world, *, lr, server_momentum, prox):
    m = 0
    for t, cohort in enumerate(cohorts):
        ahead = x + server_momentum * m
        m = server_momentum * m + world.sgd(ahead, cohort, world.lr(lr, t), prox)
        x = x + m
        yield x


def fedprox_fedmos(x, cohorts, world, *, lr, prox, **off):
    """FedMoS, Section V: "federated averaging with proximal term mu (y - x)"."""
    for cohort in cohorts:
        start, x = x, 0
        for i, w in cohort:
            y = start
            for batch, _ in world.batches(i):
                y = y - lr * world.g(y, batch) - prox * (y - start)
            x = x + w * (y - start)
        x = start + x
        yield x


SGD = {"lr": 0.5, "server_lr": 0.8}
HEAVY = SGD | {"server_momentum": 0.6}
ADAM = {"lr": 0.5, "server_lr": 0.1, "b1": 0.6, "b2": 0.9, "eps": 0.05}
AMS = ADAM | {"eps": 0.01}
MIX = SGD | {"mix": 0.3}
MOS = {"lr": 0.5, "storm": 0.3, "prox": 0.1, "server_momentum": 0.6}
ACG = {"lr": 0.5, "server_momentum": 0.6, "prox": 0.2}
STEM = {"lr": 0.5, "storm": 0.3}
BETA = {"lr": 0.5, "server_momentum": 0.7}
DECAYING = World(round_decay=0.9)
WEIGHTY = World(weight_decay=0.05)
EVERYTHING = World(
    epochs=2, clip=0.4, weight_decay=0.05, epoch_decay=0.8, round_decay=0.9
)
ACS = fm.samplers.adaptive(problem.tools(4))
BERNOULLI = fm.samplers.bernoulli(problem.tools(3))

CASES = {
    "fedavg": Case(fedavg, fm.algorithms.fedavg, SGD),
    "fedavg ucs": Case(
        fedavg,
        fm.algorithms.fedavg,
        SGD,
        World(),
        fm.samplers.uniform(problem.tools(3)),
    ),
    "fedavg acs": Case(fedavg, fm.algorithms.fedavg, SGD, World(), ACS),
    "fedavg options": Case(fedavg, fm.algorithms.fedavg, SGD, EVERYTHING),
    "fedprox": Case(fedavg, fm.algorithms.fedprox, SGD | {"prox": 0.5}),
    "fedprox options": Case(
        fedavg, fm.algorithms.fedprox, SGD | {"prox": 0.5}, EVERYTHING
    ),
    "fedavgm": Case(fedavgm, fm.algorithms.fedavgm, HEAVY),
    "fedprox fedmos": Case(
        fedprox_fedmos,
        fm.algorithms.fedmos_release,
        catalog.ALGORITHMS["fedprox_fedmos"].options | {"lr": 0.5, "prox": 0.1},
        World(epochs=2),
    ),
    "slowmo": Case(slowmo, fm.algorithms.slowmo, HEAVY, DECAYING),
    "fedadagrad": Case(
        fedadagrad,
        fm.algorithms.fedadagrad,
        {"lr": 0.5, "server_lr": 0.1, "b1": 0.6, "eps": 0.05},
    ),
    "fedadam": Case(fedadam, fm.algorithms.fedadam, ADAM),
    "fedyogi": Case(fedyogi, fm.algorithms.fedyogi, ADAM),
    "fedams": Case(fedams, fm.algorithms.fedams, AMS),
    "fedams release": Case(
        fedams, fm.algorithms.fedams, AMS | {"bias_correction": True}
    ),
    "fedams 2": Case(fedams, fm.algorithms.fedams, AMS | {"option": 2}),
    "fedams 2 release": Case(
        fedams,
        fm.algorithms.fedams,
        AMS | {"option": 2, "bias_correction": True},
    ),
    "fedams inside": Case(
        fedams, fm.algorithms.fedams, AMS | {"option": 2, "eps_inside": True}
    ),
    "fedams inside release": Case(
        fedams,
        fm.algorithms.fedams,
        AMS | {"option": 2, "eps_inside": True, "bias_correction": True},
    ),
    "fedcm": Case(fedcm, fm.algorithms.fedcm, MIX),
    "fedcm bernoulli": Case(fedcm, fm.algorithms.fedcm, MIX, DECAYING, BERNOULLI),
    "fedcm decay outside": Case(fedcm, fm.algorithms.fedcm, MIX, WEIGHTY),
    "fedcm decay inside": Case(
        fedcm, fm.algorithms.fedcm, MIX | {"decay_inside": True}, WEIGHTY
    ),
    "fedcm options": Case(fedcm, fm.algorithms.fedcm, MIX, EVERYTHING),
    "fedcm options inside": Case(
        fedcm,
        fm.algorithms.fedcm,
        MIX | {"decay_inside": True},
        EVERYTHING,
    ),
    "mime": Case(mime, fm.algorithms.mime, BETA),
    "mime options": Case(mime, fm.algorithms.mime, BETA, EVERYTHING),
    "mimelite": Case(mimelite, fm.algorithms.mimelite, BETA, World(epochs=2)),
    "stem": Case(stem, fm.algorithms.stem, STEM, World(epochs=2)),
    "stem options": Case(stem, fm.algorithms.stem, STEM, EVERYTHING),
    "stem own init": Case(stem, fm.algorithms.stem, STEM | {"own_init": True}),
    "fedglomo": Case(fedglomo, fm.algorithms.fedglomo, {"lr": 0.5, "mix": 0.3}),
    "fedglomo options": Case(
        fedglomo, fm.algorithms.fedglomo, {"lr": 0.5, "mix": 0.3}, EVERYTHING
    ),
    "fedlomo": Case(fedlomo, fm.algorithms.fedlomo, {"lr": 0.5}, World(epochs=2)),
    "fedmos": Case(fedmos, fm.algorithms.fedmos, MOS),
    "fedmos acs": Case(fedmos, fm.algorithms.fedmos, MOS, World(), ACS),
    "fedmos ucs": Case(
        fedmos,
        fm.algorithms.fedmos,
        MOS,
        World(),
        fm.samplers.uniform(problem.tools(3)),
    ),
    "fedmos minibatch": Case(
        fedmos, fm.algorithms.fedmos, MOS | {"first_batch": "step"}
    ),
    "fedmos options": Case(fedmos, fm.algorithms.fedmos, MOS, EVERYTHING),
    "fedmos release": Case(
        fedmos_release, fm.algorithms.fedmos_release, MOS, World(epochs=2)
    ),
    "fedacg": Case(fedacg, fm.algorithms.fedacg, ACG),
    "fedacg options": Case(fedacg, fm.algorithms.fedacg, ACG, EVERYTHING),
}


# A method with further options, or in another reading, has a name of several words.
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.thorough) if " " in c else c for c in CASES],
)
def test_matches_the_paper(case):
    """An algorithm that drifts from its paper by one sign or factor fails here."""
    got, expected = CASES[case].run()
    assert_partial(got.cohorts)
    assert_path(got.path, expected)
