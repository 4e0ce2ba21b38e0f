"""Local work: plans, gradients, steps, and what they make of FedAvg and FedMoS."""

from collections import Counter
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from fedjax_mos.data.store import take, views
from fedjax_mos.types import Plan
from tests import problem

N, LARGEST = len(problem.SIZES), max(problem.SIZES)
LOSS = fm.cross_entropy(problem.softmax_net)


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


# ---- plans ---------------------------------------------------------------------------


def test_with_replacement_draws_the_clients_own_rows():
    """A row of another client would leak data between clients."""
    plan = fm.with_replacement(40, 5)
    made = jax.jit(lambda key: over_clients(lambda v: plan(v, key)))(jax.random.key(0))
    assert made.rows.shape == (N, 40, 5) and made.active is None
    for client in range(N):  # 200 draws of at most 12 rows: none is missed
        assert set(np.ravel(made.rows[client]).tolist()) == set(rows_of(client))
    counts = np.array(list(Counter(np.ravel(made.rows[3]).tolist()).values()))
    expected = 200 / 12
    assert ((counts - expected) ** 2 / expected).sum() < 35  # chi2(11), p = 2e-4
    assert (made.epoch == 0).all()
    keys = jax.random.key_data(made.keys[0])
    assert len({tuple(key) for key in np.asarray(keys)}) == 40


@pytest.mark.parametrize("batch_size", [1, 4, 5, 20])
def test_epochs_visits_each_example_exactly(batch_size):
    """A missed or doubled example makes an epoch something else."""
    E, plan = 2, fm.epochs(2, batch_size)
    made = jax.jit(lambda key: over_clients(lambda v: plan(v, key)))(jax.random.key(0))
    per_epoch = -(-LARGEST // batch_size)
    assert made.rows.shape == (N, E * per_epoch, batch_size)
    for client, size in enumerate(problem.SIZES):
        rows, active = np.asarray(made.rows[client]), np.asarray(made.active[client])
        epoch = np.asarray(made.epoch[client])
        mine = -(-size // batch_size)
        np.testing.assert_array_equal(epoch, np.repeat(np.arange(E), per_epoch))
        expected = np.tile(np.arange(per_epoch) < mine, E)
        np.testing.assert_array_equal(active, expected)
        assert int(local.num_steps(jax.tree.map(lambda a, i=client: a[i], made))) == (
            E * mine
        )
        orders = []
        for e in range(E):
            seen = rows[active & (epoch == e)]
            assert (seen[:-1] >= 0).all()  # only the last batch may be short
            orders.append(seen[seen >= 0].tolist())
            assert sorted(orders[-1]) == sorted(rows_of(client))
        assert set(rows[~active].ravel()) <= set(rows_of(client))
        assert size < 7 or orders[0] != orders[1]  # reshuffled
    keys = np.asarray(jax.random.key_data(made.keys[0]))
    assert len({tuple(key) for key in keys}) == E * per_epoch


@pytest.mark.parametrize("mapped", [True, False], ids=["vmapped", "one by one"])
def test_inactive_steps_leave_the_carry_untouched(mapped):
    """Else small clients would train on padding to the length of the largest."""
    plan = fm.epochs(3, 4)

    def step(carry, now):
        count, last, total = carry
        x = jnp.where(now.batch.mask[:, None], now.batch.x, 0).sum()
        return (count + 1, now.epoch, total + x), jnp.ones(())

    def work(view):
        carry = (jnp.int32(0), jnp.int32(-1), jnp.float32(0))
        return local.local_scan(step, carry, view, plan(view, jax.random.key(0)))

    if mapped:
        (count, last, total), outs = jax.jit(lambda: over_clients(work))()
    else:
        single = jax.jit(lambda i: work(views(problem.data(), i)))
        done = [single(jnp.int32(i)) for i in range(N)]
        (count, last, total), outs = jax.tree.map(lambda *a: jnp.stack(a), *done)
    steps = [3 * -(-size // 4) for size in problem.SIZES]
    assert steps[0] == 3 and steps[3] == 9
    np.testing.assert_array_equal(count, steps)
    np.testing.assert_array_equal(last, 2)
    np.testing.assert_array_equal(outs.sum(axis=1), steps)  # zeros when inactive
    x = problem.arrays()[0]
    expected = [3 * x[rows_of(i)].sum() for i in range(N)]
    np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5)


def test_step_at_and_tail_split_a_plan():
    """FedMoS takes its first step apart from the others: none lost, none twice."""
    plan = jax.jit(fm.epochs(2, 5))(view(3), jax.random.key(0))
    first, rest = local.step_at(plan, 0, view(3)), local.tail(plan)
    np.testing.assert_array_equal(first.batch.x, problem.arrays()[0][plan.rows[0]])
    assert first.batch.mask.all() and int(first.epoch) == 0
    for ours, theirs in zip(rest[:3], plan[:3], strict=True):
        np.testing.assert_array_equal(ours, theirs[1:])
    assert (rest.keys == plan.keys[1:]).all() and first.key == plan.keys[0]


@pytest.mark.parametrize("client", [0, 3])
def test_a_large_batch_is_distinct(client):
    """Corollary 1 of FedMoS wants distinct examples, or all there are."""
    x = problem.arrays()[0]
    chosen, large = set(), jax.jit(local.large_batch, static_argnums=2)
    for seed in range(4):
        batch = large(view(client), jax.random.key(seed), 5)
        assert batch.x.shape[0] == 5
        rows = np.asarray(batch.x)[np.asarray(batch.mask)]
        where = [int(np.flatnonzero((x == row).all(1))[0]) for row in rows]
        assert len(set(where)) == len(where) == min(5, problem.SIZES[client])
        assert set(where) <= set(rows_of(client))
        chosen.add(tuple(sorted(where)))
    assert len(chosen) == (1 if client == 0 else 4)
    everything = large(view(client), jax.random.key(0), 99)
    assert int(everything.mask.sum()) == problem.SIZES[client]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fm.with_replacement(0, 3), "steps must be at least 1: got 0"),
        (lambda: fm.with_replacement(3, 0), "batch_size must be at least 1: got 0"),
        (lambda: fm.epochs(-1, 3), "epochs must be at least 1: got -1"),
        (lambda: fm.epochs(1, 0), "batch_size must be at least 1: got 0"),
        (
            lambda: fm.local_work(LOSS, fm.epochs(1, 1), micro_batch=0),
            "micro_batch must be at least 1: got 0",
        ),
    ],
)
def test_sizes_must_be_positive(make, message):
    """An empty plan would train on nothing without a word."""
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("first_batch", [0, -3, "all", 2.5])
def test_first_batch_is_checked(first_batch):
    """A typo must not silently choose another first gradient."""
    work = fm.local_work(LOSS, fm.epochs(1, 4))
    hp = {"lr": 0.1, "storm": 0.1, "prox": 0.0, "server_momentum": 0.0}
    with pytest.raises(ValueError, match="first_batch must be"):
        fm.fedmos(work, first_batch=first_batch, **hp)


# ---- gradients and steps -------------------------------------------------------------


@pytest.mark.parametrize("micro_batch", [1, 5, 12, 256])
def test_the_full_gradient_is_the_plain_one(micro_batch):
    """Micro-batches must weigh by their examples, for every size of client."""
    work = fm.local_work(LOSS, fm.epochs(1, 4), micro_batch=micro_batch)
    params = problem.softmax_params()
    key = jax.random.key(0)
    value, got = jax.jit(
        lambda p: over_clients(lambda v: work.full_gradient(p, v, key))
    )(params)
    data = problem.data()
    for client in range(N):
        rows = rows_of(client)
        expected = softmax_gradient(flat(params), rows)
        ours = flat(jax.tree.map(lambda a, i=client: a[i], got))
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-6)
        plain = LOSS(params, take(data, jnp.asarray(rows)), key)
        np.testing.assert_allclose(value[client], plain, rtol=1e-5)


@pytest.mark.parametrize(("client", "blocks"), [(0, 1), (1, 3)])
def test_empty_blocks_of_a_full_gradient_are_skipped(client, blocks):
    """A small client that computes as long as the largest one (12 examples)."""
    calls = []

    def loss(params, batch, key):
        jax.debug.callback(lambda: calls.append(client))
        return LOSS(params, batch, key)

    work = fm.local_work(loss, fm.epochs(1, 4), micro_batch=4)
    params, key = problem.softmax_params(), jax.random.key(0)
    jax.block_until_ready(jax.jit(work.full_gradient)(params, view(client), key))
    jax.effects_barrier()
    assert len(calls) == blocks  # of 3 or 10 examples


@pytest.mark.parametrize(("micro_batch", "width"), [(256, 12), (11, 6), (5, 4)])
def test_blocks_of_a_full_gradient_are_cut_evenly(micro_batch, width):
    """Blocks of 11 and 1 examples would pad the second to 11."""
    widths = set()

    def loss(params, batch, key):
        widths.add(batch.y.shape[0])
        return LOSS(params, batch, key)

    work = fm.local_work(loss, fm.epochs(1, 4), micro_batch=micro_batch)
    args = problem.softmax_params(), view(1), jax.random.key(0)
    jax.eval_shape(work.full_gradient, *args)
    assert widths == {width}


def test_one_step_in_the_documented_order():
    """Decay before clipping, or scale outside of decay, is a different optimiser."""
    clip, decay, shrink = 0.05, 0.3, 0.5
    scale = {"w": jnp.float32(2.0), "b": jnp.float32(0.25)}
    work = fm.local_work(
        LOSS,
        fm.epochs(1, 4),
        clip=clip,
        weight_decay=decay,
        epoch_decay=shrink,
        scale=scale,
    )
    params, rows = problem.softmax_params(), rows_of(3)
    batch, key = take(problem.data(), jnp.asarray(rows)), jax.random.key(0)
    _, g = jax.jit(work.gradient)(params, batch, key)
    theta = flat(params)
    expected = softmax_gradient(theta, rows)
    norm = np.sqrt((expected**2).sum())  # over all tensors together
    assert norm > 2 * clip
    expected *= clip / norm
    np.testing.assert_allclose(flat(g), expected, rtol=1e-4, atol=1e-7)
    _, full = jax.jit(work.full_gradient)(params, view(3), key)
    np.testing.assert_allclose(flat(full), expected, rtol=1e-4, atol=1e-7)
    after = work.descend(params, g, 0.7, jnp.int32(3))
    factor = np.array([[2.0]] * problem.FEATURES + [[0.25]])
    expected = theta - 0.7 * shrink**3 * factor * (expected + decay * theta)
    np.testing.assert_allclose(flat(after), expected, rtol=1e-5, atol=1e-7)


def test_options_left_out_do_nothing():
    """A small gradient is not clipped up, and a bare step is y - lr g."""
    params, rows, key = problem.softmax_params(), rows_of(3), jax.random.key(0)
    batch = take(problem.data(), jnp.asarray(rows))
    expected = softmax_gradient(flat(params), rows)
    for options in ({}, {"clip": 10.0}):
        work = fm.local_work(LOSS, fm.epochs(1, 4), **options)
        _, g = jax.jit(work.gradient)(params, batch, key)
        np.testing.assert_allclose(flat(g), expected, rtol=1e-4, atol=1e-7)
    after = work.descend(params, g, 0.7, jnp.int32(3))
    expected = flat(params) - 0.7 * expected
    np.testing.assert_allclose(flat(after), expected, rtol=1e-5)


def test_augmentation_has_a_key_of_its_own():
    """Dropout and augmentation from one key would be correlated."""
    seen = []

    def note(key):
        if not isinstance(key, jax.core.Tracer):  # else only shapes are asked for
            seen.append(jax.random.key_data(key).tolist())

    def augment(batch, key):
        note(key)
        return batch._replace(x=batch.x + 100)

    def loss(params, batch, key):
        note(key)
        return (params * batch.x.mean()).sum()

    work = fm.local_work(loss, fm.epochs(1, 4), augment=augment, micro_batch=5)
    batch = take(problem.data(), jnp.arange(4))
    keys = jax.random.split(jax.random.key(0), 2)
    for key in keys:
        _, g = work.gradient(jnp.ones(1), batch, key)
        np.testing.assert_allclose(g, batch.x.mean() + 100, rtol=1e-5)
        assert seen[-1] == jax.random.key_data(key).tolist()  # the loss has the step's
    assert len(seen) == 4 and len({tuple(key) for key in seen}) == 4
    seen.clear()
    with jax.disable_jit():
        _, g = work.full_gradient(jnp.ones(1), view(3), keys[0])
    assert len(seen) == 6  # 12 examples, three blocks
    assert len({tuple(key) for key in seen}) == 6
    np.testing.assert_allclose(g, 100, atol=1)


# ---- what algorithms make of it ------------------------------------------------------


def rollout(algorithm, plan, data, params, rounds):
    n = data.size.shape[0]
    weights = np.asarray(data.size) / data.order.shape[0]
    sampler = problem.fixed_cohort(np.arange(n), weights)
    sim = fm.simulation(algorithm, fm.local_work(LOSS, plan, micro_batch=5), sampler)
    key = jax.random.key(0)
    state = sim.init(params, data, key)
    run = jax.jit(lambda d, s, k: fm.rollout(sim, d, s, k, rounds))
    state, (info, _) = run(data, state, key)
    return state.server.params, info


def test_one_client_is_centralised_gradient_descent():
    """N = M = 1, one full batch a round: nothing federated may be left."""
    data, params = fm.federate(*problem.arrays()), problem.softmax_params()
    algorithm = fm.spec(fm.fedavg, lr=0.5, server_lr=1.0)
    got, info = rollout(algorithm, fm.epochs(1, 43), data, params, 5)
    theta, x, y = flat(params), *problem.arrays()
    for t in range(5):
        z = x.astype(float) @ theta[:-1] + theta[-1]
        losses = np.log(np.exp(z).sum(1)) - z[np.arange(43), y]
        np.testing.assert_allclose(info.metrics["loss"][t], losses.mean(), rtol=1e-4)
        theta = theta - 0.5 * softmax_gradient(theta, np.arange(43))
    np.testing.assert_allclose(flat(got), theta, rtol=1e-4, atol=1e-6)


def test_storm_is_exact_without_noise():
    """On full batches the correction vanishes: FedMoS is local gradient descent."""
    data, params = problem.data(), problem.softmax_params()
    hp = {"lr": 0.5, "prox": 0.0, "server_momentum": 0.0}
    results = [
        rollout(fm.spec(fm.fedmos, storm=storm, **hp), whole(4), data, params, 3)[0]
        for storm in (0.1, 1.0)
    ]
    algorithm = fm.spec(fm.fedavg, lr=0.5, server_lr=1.0)
    expected, _ = rollout(algorithm, whole(4), data, params, 3)
    for got in results:
        chex.assert_trees_all_close(got, expected, rtol=1e-4, atol=1e-6)


@cache
def recorded(factory, plan, **options):
    """One client's message, its (y_k, d_k) and its (point, gradient) calls."""
    work = fm.local_work(LOSS, plan, micro_batch=5)

    @jax.jit
    def program():
        directions, gradients = [], []

        def gradient(params, batch, key):
            value, g = work.gradient(params, batch, key)
            gradients.append((params, g))
            return value, g

        def descend(params, direction, lr, epoch):
            directions.append((params, direction))
            return work.descend(params, direction, lr, epoch)

        tools = work._replace(gradient=gradient, descend=descend)
        algo = factory(tools, server_momentum=0.0, **options)
        args = (problem.softmax_params(), (), view(3), jax.random.key(2))
        with jax.disable_jit():  # the scan becomes a loop, whose steps can be noted
            delta = algo.exchanges[0].client(*args)[0]
        return delta, directions, gradients

    def is_params(value):
        return isinstance(value, dict)

    return jax.tree.map(flat, program(), is_leaf=is_params)


def test_storm_directions_are_full_gradients():
    """d_k = grad f_i(y_k) at every step when batches have no noise."""
    _, directions, _ = recorded(fm.fedmos, whole(3), lr=0.5, storm=0.1, prox=0.2)
    assert len(directions) == 3
    for y, d in directions:
        expected = softmax_gradient(y, rows_of(3))
        np.testing.assert_allclose(d, expected, rtol=1e-4, atol=1e-6)


MINI = fm.with_replacement(5, 3)


def test_the_unrolled_displacement():
    """delta_i = -eta sum_k (1 - mu)^(I-1-k) d_k, Eq. (40) with its sign."""
    lr, mu = 0.5, 0.3
    delta, directions, _ = recorded(fm.fedmos, MINI, lr=lr, storm=0.4, prox=mu)
    ds = [d for _, d in directions]
    I = len(ds)  # noqa: E741
    assert I == 5
    expected = -lr * sum((1 - mu) ** (I - 1 - k) * d for k, d in enumerate(ds))
    np.testing.assert_allclose(delta, expected, rtol=1e-4, atol=1e-6)


def test_storm_recursion():
    """d_k = g(y_k) + (1 - a)(d_{k-1} - g(y_{k-1})), from the recorded gradients."""
    _, directions, gradients = recorded(fm.fedmos, MINI, lr=0.5, storm=0.4, prox=0.3)
    d = softmax_gradient(flat(problem.softmax_params()), rows_of(3))
    np.testing.assert_allclose(directions[0][1], d, rtol=1e-4, atol=1e-6)
    for k in range(1, 5):
        (y, g), (y_before, stale) = gradients[2 * k - 2 : 2 * k]
        np.testing.assert_array_equal(y, directions[k][0])
        np.testing.assert_array_equal(y_before, directions[k - 1][0])
        d = g + (1 - 0.4) * (d - stale)
        np.testing.assert_allclose(directions[k][1], d, rtol=1e-4, atol=1e-6)


def test_the_release_adds_a_fading_first_gradient():
    """d_k = g_k + (1 - a)^k g_0: what the published program really computes."""
    a = 0.4
    delta, directions, gradients = recorded(
        fm.fedmos_release, MINI, lr=0.5, storm=a, prox=0.3
    )
    assert len(directions) == len(gradients) == 5
    first = gradients[0][1]
    np.testing.assert_allclose(directions[0][1], first, rtol=1e-6)
    for k in range(1, 5):
        expected = gradients[k][1] + (1 - a) ** k * first
        np.testing.assert_allclose(directions[k][1], expected, rtol=1e-4, atol=1e-6)
    ds = [d for _, d in directions]
    expected = -0.5 * sum(0.7 ** (4 - k) * d for k, d in enumerate(ds))
    np.testing.assert_allclose(delta, expected, rtol=1e-4, atol=1e-6)


def test_clipping_a_zero_gradient_has_a_finite_derivative():
    """Hypergradients pass through the norm; its root has none at zero."""
    work = fm.local_work(lambda p, b, k: (p**2).sum(), fm.epochs(1, 4), clip=1.0)
    batch, key = take(problem.data(), jnp.arange(2)), jax.random.key(0)
    slope = jax.grad(lambda p: work.gradient(p, batch, key)[1].sum())(jnp.zeros(3))
    np.testing.assert_allclose(slope, 2.0, rtol=1e-5)
