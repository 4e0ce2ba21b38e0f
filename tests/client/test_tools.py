"""Local work: scans along a plan, gradients and steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from fedjax_mos.data.store import take, views
from tests import problem
from tests.client.toy import (
    LOSS,
    N,
    flat,
    over_clients,
    rows_of,
    softmax_gradient,
    view,
)


def step_of(batch, key, epoch=0):
    """What happens now: this batch, under this key, in this epoch."""
    return fm.types.Step(batch, jnp.int32(epoch), key)


@pytest.mark.parametrize("mapped", [True, False], ids=["vmapped", "one by one"])
def test_inactive_steps_leave_the_carry_untouched(mapped):
    """Else small clients would train on padding to the length of the largest."""
    plan = fm.plans.epochs(3, 4)

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
    plan = jax.jit(fm.plans.epochs(2, 5))(view(3), jax.random.key(0))
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


# ---- gradients and steps -------------------------------------------------------------


@pytest.mark.parametrize("micro_batch", [1, 5, 12, 256])
def test_the_full_gradient_is_the_plain_one(micro_batch):
    """Micro-batches must weigh by their examples, for every size of client."""
    work = fm.local_work(LOSS, fm.plans.epochs(1, 4), micro_batch=micro_batch)
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

    work = fm.local_work(loss, fm.plans.epochs(1, 4), micro_batch=4)
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

    work = fm.local_work(loss, fm.plans.epochs(1, 4), micro_batch=micro_batch)
    args = problem.softmax_params(), view(1), jax.random.key(0)
    jax.eval_shape(work.full_gradient, *args)
    assert widths == {width}


def test_one_step_in_the_documented_order():
    """Decay before clipping, or scale outside of decay, is a different optimiser."""
    clip, decay, shrink = 0.05, 0.3, 0.5
    scale = {"w": jnp.float32(2.0), "b": jnp.float32(0.25)}
    work = fm.local_work(
        LOSS,
        fm.plans.epochs(1, 4),
        clip=clip,
        weight_decay=decay,
        epoch_decay=shrink,
        scale=scale,
    )
    params, rows = problem.softmax_params(), rows_of(3)
    batch, key = take(problem.data(), jnp.asarray(rows)), jax.random.key(0)
    _, g = jax.jit(work.gradient)(params, step_of(batch, key))
    theta = flat(params)
    expected = softmax_gradient(theta, rows)
    norm = np.sqrt((expected**2).sum())  # over all tensors together
    assert norm > 2 * clip
    expected *= clip / norm
    np.testing.assert_allclose(flat(g), expected, rtol=1e-4, atol=1e-7)
    _, full = jax.jit(work.full_gradient)(params, view(3), key)
    np.testing.assert_allclose(flat(full), expected, rtol=1e-4, atol=1e-7)
    after = work.descend(params, g, 0.7, step_of(batch, key, 3))
    factor = np.array([[2.0]] * problem.FEATURES + [[0.25]])
    expected = theta - 0.7 * shrink**3 * factor * (expected + decay * theta)
    np.testing.assert_allclose(flat(after), expected, rtol=1e-5, atol=1e-7)


def test_options_left_out_do_nothing():
    """A small gradient is not clipped up, and a bare step is y - lr g."""
    params, rows, key = problem.softmax_params(), rows_of(3), jax.random.key(0)
    batch = take(problem.data(), jnp.asarray(rows))
    expected = softmax_gradient(flat(params), rows)
    for options in ({}, {"clip": 10.0}):
        work = fm.local_work(LOSS, fm.plans.epochs(1, 4), **options)
        _, g = jax.jit(work.gradient)(params, step_of(batch, key))
        np.testing.assert_allclose(flat(g), expected, rtol=1e-4, atol=1e-7)
    after = work.descend(params, g, 0.7, step_of(batch, key, 3))
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

    work = fm.local_work(loss, fm.plans.epochs(1, 4), augment=augment, micro_batch=5)
    batch = take(problem.data(), jnp.arange(4))
    keys = jax.random.split(jax.random.key(0), 2)
    for key in keys:
        _, g = work.gradient(jnp.ones(1), step_of(batch, key))
        np.testing.assert_allclose(g, batch.x.mean() + 100, rtol=1e-5)
        assert seen[-1] == jax.random.key_data(key).tolist()  # the loss has the step's
    assert len(seen) == 4 and len({tuple(key) for key in seen}) == 4
    seen.clear()
    with jax.disable_jit():
        _, g = work.full_gradient(jnp.ones(1), view(3), keys[0])
    assert len(seen) == 6  # 12 examples, three blocks
    assert len({tuple(key) for key in seen}) == 6
    np.testing.assert_allclose(g, 100, atol=1)


def test_clipping_a_zero_gradient_has_a_finite_derivative():
    """Hypergradients pass through the norm; its root has none at zero."""
    work = fm.local_work(lambda p, b, k: (p**2).sum(), fm.plans.epochs(1, 4), clip=1.0)
    batch, key = take(problem.data(), jnp.arange(2)), jax.random.key(0)
    slope = jax.grad(lambda p: work.gradient(p, step_of(batch, key))[1].sum())(
        jnp.zeros(3)
    )
    np.testing.assert_allclose(slope, 2.0, rtol=1e-5)
