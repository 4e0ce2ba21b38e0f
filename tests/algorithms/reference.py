"""What the NumPy references share: the toy world, one way to run the package.

Parameters are flat vectors in the order of the tree's leaves. `World` holds the plan
and the options of a local step once for both sides.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_mos as fm
from fedjax_mos.engine.hyperparameters import decaying
from tests import problem

ROUNDS, STEPS, BATCH = 6, 3, 4
EXACT = jax.config.jax_enable_x64
TOLERANCE = {"rtol": 1e-9, "atol": 1e-11} if EXACT else {"rtol": 1e-4, "atol": 1e-5}


def clients():
    """Client -> (features, labels), by the partition alone."""
    x, y = problem.arrays()
    order, size = problem.partition()
    ends = np.cumsum(size)
    return [
        (x[order[e - s : e]].astype(float), y[order[e - s : e]])
        for e, s in zip(ends, size, strict=True)
    ]


CLIENTS = clients()
IMPORTANCE = len(problem.SIZES) * np.array(problem.SIZES) / sum(problem.SIZES)
TURNS = ((0, 1, 2), (3, 4, 5), (0, 2, 4, 5), (1, 3), (0, 1, 5), (2, 3, 4))


def turns(weights="eq28"):
    """Known cohorts in turn, some with a dead slot: half a random sampler's compile.

    Weights N p_i / M ("eq28", which do not sum to 1) or 1 / M ("mean").
    """
    slots = max(map(len, TURNS))
    ids = np.array([(*turn, *turn)[:slots] for turn in TURNS])
    mask = np.array([np.arange(slots) < len(turn) for turn in TURNS])
    scale = IMPORTANCE[ids] if weights == "eq28" else 1.0
    weight = jnp.asarray(mask * scale / mask.sum(1, keepdims=True))
    ids, mask = jnp.asarray(ids), jnp.asarray(mask)

    def sample(t, view, key):
        now = t % len(TURNS)
        return fm.types.Cohort(ids[now], weight[now], mask[now]), t + 1

    return fm.types.Sampler(lambda view, key: jnp.zeros((), jnp.int32), sample)


def softmax_gradient(theta, x, y):
    """Mean cross-entropy gradient of softmax(x w + b); theta = b, then w."""
    b, w = theta[: problem.CLASSES], theta[problem.CLASSES :]
    z = x @ w.reshape(problem.FEATURES, -1) + b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    r = (p - np.eye(problem.CLASSES)[y]) / len(y)
    return np.concatenate([r.sum(0), (x.T @ r).ravel()])


def ragged(epochs, batch_size):
    """`plans.epochs` without the shuffling: unequal step counts, short last batches."""

    def plan(view, key):
        per_epoch = -(-view.largest // batch_size)
        position = jnp.arange(per_epoch * batch_size).reshape(per_epoch, batch_size)
        last = view.offset + view.size - 1
        rows = view.order[jnp.minimum(view.offset + position, last)]
        rows = jnp.where(position < view.size, rows, -1)
        active = position[:, 0] < view.size
        rows = jnp.where(active[:, None], rows, view.order[view.offset])
        return fm.types.Plan(
            rows=jnp.tile(rows, (epochs, 1)),
            active=jnp.tile(active, epochs),
            epoch=jnp.repeat(jnp.arange(epochs), per_epoch),
            keys=jax.random.split(key, epochs * per_epoch),
        )

    return plan


class World(NamedTuple):
    """The plan (0 epochs: K cyclic steps) and the common options of a local step."""

    epochs: int = 0
    clip: float | None = None
    weight_decay: float | None = None
    epoch_decay: float | None = None
    round_decay: float | None = None

    def work(self, loss, **more):
        """The package's local work in this world."""
        cyclic = problem.cyclic(STEPS, BATCH)
        plan = ragged(self.epochs, BATCH) if self.epochs else cyclic
        options = {
            name: getattr(self, name)
            for name in ("clip", "weight_decay", "epoch_decay")
            if getattr(self, name) is not None
        }
        return fm.local_work(loss, plan, micro_batch=5, **options, **more)

    def batches(self, i):
        """The client's minibatches, each with its epoch."""
        x, y = CLIENTS[i]
        if not self.epochs:
            rows = [np.arange(k * BATCH, (k + 1) * BATCH) for k in range(STEPS)]
            return [((x[r % len(y)], y[r % len(y)]), 0) for r in rows]
        starts = range(0, len(y), BATCH)
        return [
            ((x[s : s + BATCH], y[s : s + BATCH]), e)
            for e in range(self.epochs)
            for s in starts
        ]

    def clipped(self, g):
        """g min(1, clip / |g|)."""
        return g if self.clip is None else g * min(1, self.clip / np.linalg.norm(g))

    def g(self, y, batch, regulariser=0.0):
        """The gradient of the whole local loss, clipped."""
        return self.clipped(softmax_gradient(y, *batch) + regulariser)

    def full(self, y, i):
        """The gradient over all of the client's examples, clipped."""
        return self.g(y, CLIENTS[i])

    def lr(self, lr, t):
        """The step size of round t."""
        return lr * (self.round_decay or 1) ** t

    def rates(self, i, lr):
        """The step sizes of a client's steps in a round of step size lr."""
        return [lr * (self.epoch_decay or 1) ** e for _, e in self.batches(i)]

    def step(self, y, direction, rate):
        """y - rate (direction + weight_decay y)."""
        return y - rate * (direction + (self.weight_decay or 0) * y)

    def walk(self, start, i, lr, direction):
        """The client's steps along direction(y, batch) from `start`."""
        y = start
        for (batch, _), rate in zip(self.batches(i), self.rates(i, lr), strict=True):
            y = self.step(y, direction(y, batch), rate)
        return y

    def sgd(self, x, cohort, lr, prox=0.0):
        """Sum_i w_i delta_i of plain local SGD, with prox/2 |y - x|^2 in the loss."""
        return sum(
            w * (self.walk(x, i, lr, lambda y, b: self.g(y, b, prox * (y - x))) - x)
            for i, w in cohort
        )


class Case(NamedTuple):
    """A reference, the factory it checks, and where they run."""

    reference: Callable
    factory: Callable
    numbers: dict  # and options
    world: World = World()
    sampler: fm.types.Sampler | None = None  # cohorts in turn

    def run(self):
        """Run the package and its reference: the run, the expected path."""
        got = run(
            fm.spec(self.factory, **self.numbers), self.world, sampler=self.sampler
        )
        return got, self.reference(got.start, got.cohorts, self.world, **self.numbers)


class Run(NamedTuple):
    """One rollout of the package, for NumPy."""

    start: np.ndarray  # [d]
    path: np.ndarray  # [T, d] the server's model after every round
    cohorts: list  # per round: the live (client, weight)
    info: fm.types.RoundInfo
    state: fm.types.RoundState


def flat(tree, lead=0):
    """The leaves side by side, after `lead` leading axes."""
    leaves = [np.asarray(leaf).astype(float) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([a.reshape(*a.shape[:lead], -1) for a in leaves], -1)


def live(cohort):
    """Per round, the live (client, weight)."""
    ids, weights, mask = (np.asarray(leaf) for leaf in cohort[:3])
    return [
        [(int(i), float(w)) for i, w, on in zip(*row, strict=True) if on]
        for row in zip(ids, weights, mask, strict=True)
    ]


USUAL = World()


def run(
    algorithm,
    world=USUAL,
    *,
    sampler=None,
    rounds=ROUNDS,
    params=None,
    loss=None,
    data=None,
    more=None,
    **channels,
):
    """Run the package in `world`; softmax regression and cohorts in turn by default."""
    params = problem.softmax_params() if params is None else params
    loss = fm.losses.mean_loss(problem.softmax_net) if loss is None else loss
    data = problem.data() if data is None else data
    if world.round_decay is not None:
        channels["decay"] = fm.spec(decaying, round_decay=world.round_decay)
    sim = fm.simulation(
        algorithm,
        world.work(loss, **(more or {})),
        turns() if sampler is None else sampler,
        **channels,
    )
    key = jax.random.key(5)
    state = sim.init(params, data, key)
    state, trace = jax.jit(
        lambda d, s, k: fm.rollout(
            sim, d, s, k, rounds, report=lambda state, info: state.server.params
        )
    )(data, state, key)
    info, path = trace.info, flat(trace.reported, 1)
    return Run(flat(params), path, live(info.cohort), info, state)


def assert_partial(cohorts, returning=False):
    """The run really had changing cohorts and, if asked, clients that came back."""
    members = [{i for i, _ in cohort} for cohort in cohorts]
    assert len({frozenset(m) for m in members}) > 1
    if returning:
        seen = [
            "".join("01"[i in m] for m in members) for i in range(len(problem.SIZES))
        ]
        assert any(re.search("10+1", attendance) for attendance in seen), seen


def assert_path(got, expected):
    """Every round's model, to 1e-9 in float64."""
    np.testing.assert_allclose(got, np.stack(list(expected)), **TOLERANCE)
