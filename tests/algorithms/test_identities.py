"""Identities between methods, invariants of their state, and known fixed points."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_mos as fm
from tests import problem
from tests.algorithms.reference import (
    CLIENTS,
    EXACT,
    ROUNDS,
    STEPS,
    TOLERANCE,
    World,
    flat,
    live,
    run,
    softmax_gradient,
    turns,
)

pytestmark = pytest.mark.thorough

MEAN = turns("mean")
SGD = {"lr": 0.5, "server_lr": 0.8}
HEAVY = {"lr": 0.5, "server_lr": 1.0, "server_momentum": 0.6}
MOS = {"lr": 0.5, "storm": 0.3, "prox": 0.1, "server_momentum": 0.6}
PLAIN = {"lr": 0.5, "storm": 1.0, "prox": 0.0, "first_batch": "step"}
AMS = fm.spec(fm.algorithms.fedams, lr=0.3, server_lr=0.1, b1=0.6, b2=0.9, eps=0.01)


def feedback(fraction):
    return fm.spec(fm.channels.with_feedback, fraction=fraction)


def off(recipe, fraction, **options):
    """A rule whose kappa switches it off."""
    return fm.spec(recipe, fraction=fraction, kappa=0.0, **options)


def linear(params, batch, key):
    """A loss whose gradient does not depend on the model."""
    z = problem.softmax_net(params, batch.x, key)
    return fm.losses.masked_mean(z @ jnp.array([1.0, -2.0, 0.5]), batch.mask)


def both(recipe_up, recipe_down, **options):
    """Channels that send everything, rules off."""
    return {
        "uplink": off(recipe_up, 1.0),
        "downlink": off(recipe_down, 1.0, **options),
    }


METHODS = {
    "FedAvg": (fm.spec(fm.algorithms.fedavg, lr=0.5, server_lr=1.0), {}),
    "FedAvgM": (fm.spec(fm.algorithms.fedavgm, **HEAVY), {}),
    "FedMoS": (fm.spec(fm.algorithms.fedmos, **MOS), {}),
    "FedProx": (fm.spec(fm.algorithms.fedprox, lr=0.5, server_lr=1.0, prox=0.5), {}),
    "FedAvgM, linear loss": (fm.spec(fm.algorithms.fedavgm, **HEAVY), {"loss": linear}),
    "FedLOMO": (fm.spec(fm.algorithms.fedlomo, lr=0.5), {}),
    "FedAMS": (AMS, {}),
    "FedCAMS": (AMS, {"uplink": feedback(0.3)}),
}
SPECIAL = {
    "FedMoS(a=1, mu=0, beta=0), minibatch first": (
        "FedAvg",
        fm.spec(fm.algorithms.fedmos, **PLAIN, server_momentum=0.0),
        {},
    ),
    "FedMoS(a=1, mu=0), minibatch first": (
        "FedAvgM",
        fm.spec(fm.algorithms.fedmos, **PLAIN, server_momentum=0.6),
        {},
    ),
    "FedMoS, first batch of everything": (
        "FedMoS",
        fm.spec(fm.algorithms.fedmos, **MOS, first_batch=50),
        {},
    ),
    "SlowMo(alpha=1)": ("FedAvgM", fm.spec(fm.algorithms.slowmo, **HEAVY), {}),
    "FedACG(lambda=0)": (
        "FedProx",
        fm.spec(fm.algorithms.fedacg, lr=0.5, server_momentum=0.0, prox=0.5),
        {},
    ),
    "FedACG, linear loss": (
        "FedAvgM, linear loss",
        fm.spec(fm.algorithms.fedacg, lr=0.5, server_momentum=0.6, prox=0.0),
        {"loss": linear},
    ),
    "FedCM(alpha=1)": (
        "FedAvg",
        fm.spec(fm.algorithms.fedcm, lr=0.5, server_lr=1.0, mix=1.0),
        {},
    ),
    "FedGLOMO(beta=1)": (
        "FedLOMO",
        fm.spec(fm.algorithms.fedglomo, lr=0.5, mix=1.0),
        {},
    ),
    "FedCAMS(all)": ("FedAMS", AMS, {"uplink": feedback(1.0)}),
    "FedNLAA(0)": ("FedAMS", AMS, {"uplink": fm.spec(fm.channels.nla, kappa=0.0)}),
    "FedAA(0)": ("FedAMS", AMS, {"uplink": fm.spec(fm.channels.aa, kappa=0.0)}),
    "FedNLACA(0)": ("FedCAMS", AMS, {"uplink": off(fm.channels.nla_compressed, 0.3)}),
    "FedACA(0)": ("FedCAMS", AMS, {"uplink": off(fm.channels.aa_compressed, 0.3)}),
    "FedBNLACA(0, all)": (
        "FedAMS",
        AMS,
        both(fm.channels.nla_compressed, fm.channels.nla_down),
    ),
    "FedBNLACA(0, all), literal": (
        "FedAMS",
        AMS,
        both(fm.channels.nla_compressed, fm.channels.nla_down, downlink="literal"),
    ),
    "FedBACA(0, all)": (
        "FedAMS",
        AMS,
        both(fm.channels.aa_compressed, fm.channels.aa_down),
    ),
}


@functools.cache
def general(name):
    algorithm, options = METHODS[name]
    return run(algorithm, **options).path


@pytest.mark.parametrize("special", SPECIAL)
def test_special_case(special):
    """A method that does not reduce to its special case has a stray term."""
    name, algorithm, options = SPECIAL[special]
    got = run(algorithm, **options)
    np.testing.assert_allclose(got.path, general(name), **TOLERANCE)
    if special == "FedCAMS(all)":
        assert not flat(got.state.clients.up[0].error).any()


# ---- FedMoS --------------------------------------------------------------------------


def test_release_is_heavy_ball_on_sgd_with_a_fading_first_gradient():
    """Section 2.4 and 2.5: d_k = g_k + (1 - a)^k g_0; v <- beta v + X from round 1."""
    got = run(fm.spec(fm.algorithms.fedmos_release, **MOS))
    models = [got.start, *got.path]
    for t, cohort in enumerate(got.cohorts):
        x, total = models[t], 0
        for i, w in cohort:
            y, first = x, softmax_gradient(x, *World().batches(i)[0][0])
            for k, (batch, _) in enumerate(World().batches(i)):
                fading = (1 - MOS["storm"]) ** k * first if k else 0
                d = softmax_gradient(y, *batch) + fading
                y = y - MOS["lr"] * d - MOS["prox"] * (y - x)
            total = total + w * (y - x)
        v = MOS["server_momentum"] * (x - models[t - 1]) if t > 1 else 0
        np.testing.assert_allclose(models[t + 1], x + v + total, **TOLERANCE)


def test_storm_is_exact_without_noise():
    """With full batches d is the gradient whatever a; the displacement unrolls."""
    client, steps, lr, prox = 3, 4, 0.4, 0.2
    plan = problem.cyclic(steps, len(CLIENTS[client][1]))
    work = fm.local_work(fm.losses.mean_loss(problem.softmax_net), plan)
    algorithm = fm.spec(fm.algorithms.fedmos, **MOS | {"lr": lr, "prox": prox})
    sim = fm.simulation(algorithm, work, problem.fixed_cohort([client]))
    x = y = flat(problem.softmax_params())
    gradients = []
    for _ in range(steps):
        gradients.append(softmax_gradient(y, *CLIENTS[client]))
        y = y - lr * gradients[-1] - prox * (y - x)
    powers = (1 - prox) ** np.arange(steps)[::-1]
    unrolled = x - lr * powers @ np.array(gradients)
    np.testing.assert_allclose(y, unrolled, rtol=1e-12)
    data, key, step = problem.data(), jax.random.key(0), jax.jit(sim.step)
    for storm in (0.0, 0.3, 1.0):
        hp = {"algorithm": {"storm": storm}}
        state = sim.init(problem.softmax_params(), data, key, hp)
        state, _ = step(data, state, key)
        np.testing.assert_allclose(flat(state.server.params), unrolled, **TOLERANCE)


# ---- FedACG and FedCM ----------------------------------------------------------------


def test_fedacg_ends_at_the_mean_of_the_local_models():
    """With mean weights x_t is mean(y), reached from x + lambda (x - x_before)."""
    numbers = {"lr": 0.5, "server_momentum": 0.6, "prox": 0.2}
    got = run(fm.spec(fm.algorithms.fedacg, **numbers), sampler=MEAN)
    models = [got.start, got.start, *got.path]
    for before, x, after, cohort in zip(
        models, models[1:], models[2:], got.cohorts, strict=False
    ):
        ahead = x + numbers["server_momentum"] * (x - before)

        def direction(y, batch, ahead=ahead):
            return softmax_gradient(y, *batch) + numbers["prox"] * (y - ahead)

        ys = [World().walk(ahead, i, numbers["lr"], direction) for i, _ in cohort]
        np.testing.assert_allclose(after, np.mean(ys, 0), **TOLERANCE)


def test_fedcm_direction_is_an_average_of_gradients():
    """Lemma 4.1 with the decay inside: D+ = mix mean(g) + (1 - mix) D, gain 1."""
    lr, mix, decay = 0.5, 0.3, 0.05
    world = World(weight_decay=decay)
    algorithm = fm.spec(
        fm.algorithms.fedcm, lr=lr, mix=mix, server_lr=1.0, decay_inside=True
    )
    got = run(algorithm, world, sampler=MEAN)
    models, D = [got.start, *got.path], 0
    for x, after, cohort in zip(models, models[1:], got.cohorts, strict=False):
        gradients = []

        def direction(y, batch, D=D, seen=gradients):
            seen.append(softmax_gradient(y, *batch) + decay * y)
            return mix * seen[-1] + (1 - mix) * D

        for i, _ in cohort:
            World().walk(x, i, lr, direction)
        D = mix * np.mean(gradients, 0) + (1 - mix) * D
        np.testing.assert_allclose((x - after) / (lr * STEPS), D, **TOLERANCE)
    direction = flat(got.state.server.direction)
    np.testing.assert_allclose(direction, D, **TOLERANCE)


# ---- invariants of the state ---------------------------------------------------------

# What the server holds, and the clients' values of which it is the mean.
CONTROL = {
    "scaffold": (
        fm.spec(fm.algorithms.scaffold, **SGD),
        lambda server, mine: [(server.control, mine)],
    ),
    "feddyn": (  # the server keeps h / alpha
        fm.spec(fm.algorithms.feddyn, lr=0.5, dyn=0.4),
        lambda server, mine: [(optax.tree.scale(0.4, server.correction), mine)],
    ),
    "feddc": (
        fm.spec(fm.algorithms.feddc, lr=0.5, dyn=0.4),
        lambda server, mine: [
            (server.drift, mine.drift),
            (server.estimate, mine.estimate),
        ],
    ),
}


@pytest.mark.parametrize("case", CONTROL)
def test_the_server_holds_the_mean_of_the_clients_state(case):
    """SCAFFOLD c = mean c_i, FedDyn h = mean lambda_i, FedDC s = mean s_i, always."""
    algorithm, pairs = CONTROL[case]
    work = World().work(fm.losses.mean_loss(problem.softmax_net))
    sim = fm.simulation(algorithm, work, turns())
    data, key = problem.data(), jax.random.key(5)
    state = sim.init(problem.softmax_params(), data, key)
    step = jax.jit(sim.step)
    for _ in range(ROUNDS):
        state, _ = step(data, state, key)
        for held, values in pairs(state.server, state.clients.mine):
            assert flat(held).any()
            mean = flat(values, 1).mean(0)
            np.testing.assert_allclose(flat(held), mean, **TOLERANCE)


@pytest.mark.parametrize(
    "rule", [fm.channels.nla_compressed, fm.channels.aa_compressed]
)
def test_error_feedback_telescopes_in_a_run(rule):
    """What the server summed up = all displacements - residual, for every kappa."""
    client, numbers = 3, {"lr": 0.3, "server_lr": 1.0}
    work = World().work(fm.losses.mean_loss(problem.softmax_net))
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg, **numbers),
        work,
        problem.fixed_cohort([client]),
        uplink=fm.spec(rule, fraction=0.3, kappa=0.0),
    )
    data, key = problem.data(), jax.random.key(5)
    fired = []
    run_it = jax.jit(
        lambda state: fm.rollout(
            sim, data, state, key, ROUNDS, report=lambda s, info: s.server.params
        )
    )
    for kappa in (0.0, 0.9, 1.3, 3.0):
        hp = {"uplink": {"kappa": kappa}}
        state = sim.init(problem.softmax_params(), data, key, hp)
        state, trace = run_it(state)
        info, values = trace.info, trace.reported
        assert live(info.cohort) == [[(client, 1.0)]] * ROUNDS
        path = [flat(problem.softmax_params()), *flat(values, 1)]
        moved = sum(World().sgd(x, [(client, 1.0)], numbers["lr"]) for x in path[:-1])
        error = flat(state.clients.up[0].error, 1)[client]
        np.testing.assert_allclose(path[-1] - path[0], moved - error, **TOLERANCE)
        fired.append(float(info.metrics["fired_up"].sum()))
    assert fired[0] == 0 < fired[-1]


# ---- fixed points on quadratics ------------------------------------------------------

CURVATURE = np.array([[1.0, 3.0], [2.0, 0.5], [0.5, 1.5], [2.5, 2.0]])
MINIMUM = np.array([[1.0, -1.0], [-2.0, 3.0], [4.0, 1.0], [0.5, -3.0]])
OPTIMUM = (CURVATURE * MINIMUM).sum(0) / CURVATURE.sum(0)
LOCAL, LR = 4, 0.1
# FedAvg contracts client i's distance by (1 - lr a)^K, which weighs its minimum.
PULL = 1 - (1 - LR * CURVATURE) ** LOCAL
BIASED = (PULL * MINIMUM).sum(0) / PULL.sum(0)


def quadratic(params, batch, key):
    a, b = batch.x[:, :2], batch.x[:, 2:]
    return fm.losses.masked_mean((a * (params["y"] - b) ** 2).sum(1) / 2, batch.mask)


FIXED = {
    "fedavg": (fm.spec(fm.algorithms.fedavg, lr=LR, server_lr=1.0), 4, BIASED),
    "scaffold": (fm.spec(fm.algorithms.scaffold, lr=LR, server_lr=1.0), 2, OPTIMUM),
    "scaffold 1": (
        fm.spec(fm.algorithms.scaffold, lr=LR, server_lr=1.0, option=1),
        2,
        OPTIMUM,
    ),
    "feddyn": (fm.spec(fm.algorithms.feddyn, lr=LR, dyn=1.5), 2, OPTIMUM),
    "feddc": (fm.spec(fm.algorithms.feddc, lr=LR, dyn=0.1), 2, OPTIMUM),
}


@pytest.mark.parametrize("case", FIXED)
def test_fixed_point(case):
    """Drift correction reaches the optimum; FedAvg stops where the algebra says."""
    algorithm, cohort, point = FIXED[case]
    x = np.hstack([CURVATURE, MINIMUM]).astype(jnp.zeros(()).dtype)
    data = fm.federate(
        x, np.zeros(4, int), fm.partitions.Partition(np.arange(4), np.ones(4, int))
    )
    work = fm.local_work(quadratic, problem.cyclic(LOCAL, 1))
    sampler = fm.samplers.uniform(problem.tools(cohort), weights="mean")
    sim = fm.simulation(algorithm, work, sampler)
    key = jax.random.key(1)
    state = sim.init({"y": jnp.zeros(2)}, data, key)
    state, _ = jax.jit(lambda s: fm.rollout(sim, data, s, key, 600))(state)
    assert abs(BIASED - OPTIMUM).min() > 0.02
    tolerance = 1e-9 if EXACT else 1e-4
    np.testing.assert_allclose(state.server.params["y"], point, rtol=tolerance)
