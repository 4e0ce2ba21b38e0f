"""One client's local work: gradients and steps along a plan of minibatches.

Every algorithm draws its plan from the same key, so methods that are compared under
one seed see the same batches.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax

from fedjax_mos.client.plans import check_positive, shuffled, unrolled
from fedjax_mos.data.store import take
from fedjax_mos.types import (
    Batch,
    ClientView,
    Count,
    Forward,
    Gradient,
    Key,
    LocalWork,
    Loss,
    MakePlan,
    Metrics,
    NonNegative,
    Params,
    Plan,
    Positive,
    PyTree,
    Scalar,
    Step,
)

# Purposes, folded into a client's key by whatever draws from it.
PLAN, LARGE_BATCH, FULL_GRADIENT = range(3)
_AUGMENT = 0x41  # folded into a step's key, which dropout uses as it is


def num_steps(plan: Plan) -> jax.Array:
    """How many steps of the plan are active."""
    return jnp.asarray(len(plan.epoch)) if plan.active is None else plan.active.sum()


def step_at(plan: Plan, index: int, view: ClientView) -> Step:
    """Step `index` of the plan with its examples."""
    return Step(take(view, plan.rows[index]), plan.epoch[index], plan.keys[index])


def tail(plan: Plan) -> Plan:
    """The plan without its first step."""
    return jax.tree.map(lambda leaf: leaf[1:], plan)


def local_scan(
    step: Callable[[PyTree, Step], tuple[PyTree, PyTree]],
    carry: PyTree,
    view: ClientView,
    plan: Plan,
) -> tuple[PyTree, PyTree]:
    """Run `step` over the plan: last carry, and what the steps returned, stacked.

    An inactive step leaves the carry untouched and returns zeros.
    """

    if len(plan.epoch) == 0:  # nothing left: a scan without jit refuses that
        return carry, jnp.zeros(0)

    def body(carry: PyTree, entry: Plan) -> tuple[PyTree, PyTree]:
        def work(carry: PyTree) -> tuple[PyTree, PyTree]:
            return step(carry, Step(take(view, entry.rows), entry.epoch, entry.keys))

        if entry.active is None:
            return work(carry)
        # A real branch for one client, a select under vmap.
        out = jax.eval_shape(work, carry)[1]
        zeros = optax.tree.zeros_like(out)
        return jax.lax.cond(entry.active, work, lambda carry: (carry, zeros), carry)

    return jax.lax.scan(body, carry, plan, unroll=unrolled(carry, plan))


def large_batch(view: ClientView, key: Key, size: int) -> Batch:
    """`size` distinct examples of the client, or all of them if it has fewer."""
    order = shuffled(view, jax.random.fold_in(key, LARGE_BATCH))
    return take(view, order[:size])


def over_all(
    measure: Callable[[Batch, Key], PyTree], view: ClientView, key: Key, width: int
) -> PyTree:
    """The mean of `measure` over all of a client's examples, at most `width` at a time.

    All clients have blocks of one width, the largest client's cut evenly.
    """
    blocks = -(-view.largest // width)
    width = -(-view.largest // blocks)
    position = jnp.arange(blocks * width).reshape(blocks, width)
    last = view.offset + view.size - 1
    rows = view.order[jnp.minimum(view.offset + position, last)]
    rows = jnp.where(position < view.size, rows, -1)
    counts = (rows >= 0).sum(axis=1)
    # Under vmap a block without examples computes all the same: on a real one.
    first = jnp.where(counts > 0, rows[:, 0], view.order[view.offset])
    rows = rows.at[:, 0].set(first)

    def block(total: PyTree, xs: tuple) -> tuple[PyTree, None]:
        rows, count, key = xs

        def add(total: PyTree) -> PyTree:
            return jax.tree.map(
                lambda t, o: t + (count / view.size).astype(o.dtype) * o,
                total,
                measure(take(view, rows), key),
            )

        if blocks == 1:
            return add(total), None
        return jax.lax.cond(count > 0, add, lambda total: total, total), None

    shapes = jax.eval_shape(measure, take(view, rows[0]), key)
    zeros = optax.tree.zeros_like(shapes)
    return jax.lax.scan(block, zeros, (rows, counts, jax.random.split(key, blocks)))[0]


def local_work(
    loss: Loss,
    plan: MakePlan,
    forward: Forward | None = None,
    augment: Callable[[Batch, Key], Batch] | None = None,
    *,
    micro_batch: Count = 32,
    clip: Positive | None = None,
    weight_decay: NonNegative | None = None,
    epoch_decay: Positive | None = None,
    scale: NonNegative | None = None,
) -> LocalWork:
    """The tools of a client. An option left at None costs nothing.

    One step, in this order: g of the whole loss; g * min(1, clip / |g|) over the global
    norm; y - lr * epoch_decay**epoch * scale * (g + weight_decay * y).
    `scale` is a number or a tree of numbers that is a prefix of the parameters' tree.
    Full gradients go through at most `micro_batch` examples at a time; where clients
    go one by one, small blocks waste little on those smaller than the largest.
    `forward` is the staged model behind `loss`, for methods that use its features.
    """
    check_positive(micro_batch=micro_batch)

    def raw(
        objective: Loss, params: Params, batch: Batch, key: Key
    ) -> tuple[jax.Array, Params]:
        if augment is not None:
            batch = augment(batch, jax.random.fold_in(key, _AUGMENT))
        return jax.value_and_grad(objective)(params, batch, key)

    def clipped(gradient: Params) -> Params:
        if clip is None:
            return gradient
        # The tiny constant keeps the derivative finite at a zero gradient.
        squared = optax.tree.norm(gradient, squared=True) + 1e-30
        return optax.tree.scale(jnp.minimum(1.0, clip / jnp.sqrt(squared)), gradient)

    def gradient_of(objective: Loss) -> Gradient:
        def gradient(params: Params, now: Step) -> tuple[jax.Array, Params]:
            value, g = raw(objective, params, now.batch, now.key)
            return value, clipped(g)

        return gradient

    def full_gradient(
        params: Params, view: ClientView, key: Key
    ) -> tuple[jax.Array, Params]:
        key = jax.random.fold_in(key, FULL_GRADIENT)
        value, g = over_all(partial(raw, loss, params), view, key, micro_batch)
        return value, clipped(g)

    def move(params: Params, direction: Params, lr: Scalar, now: Step) -> Params:
        if scale is not None:
            direction = jax.tree.map(optax.tree.scale, scale, direction)
        return optax.tree.add_scale(params, -rate(lr, now.epoch), direction)

    def rate(lr: Scalar, epoch: jax.Array) -> Scalar:
        return lr if epoch_decay is None else lr * epoch_decay**epoch

    def decayed(direction: Params, params: Params) -> Params:
        if weight_decay is None:
            return direction
        return optax.tree.add_scale(direction, weight_decay, params)

    def descend(params: Params, direction: Params, lr: Scalar, now: Step) -> Params:
        return move(params, decayed(direction, params), lr, now)

    def path_length(plan: Plan, lr: Scalar) -> jax.Array:
        if scale is not None:
            raise ValueError(
                "scale does not go with this method, which divides by its step size"
            )
        rates = jnp.broadcast_to(rate(lr, plan.epoch), plan.epoch.shape)
        return rates.sum() if plan.active is None else (rates * plan.active).sum()

    def drawn(view: ClientView, key: Key) -> Plan:
        return plan(view, jax.random.fold_in(key, PLAN))

    return LocalWork(
        plan=drawn,
        gradient=gradient_of(loss),
        full_gradient=full_gradient,
        descend=descend,
        loss=loss,
        gradient_of=gradient_of,
        move=move,
        decayed=decayed,
        path_length=path_length,
        forward=forward,
    )


def walk(
    local: LocalWork,
    direction: Callable[[Params, Step], tuple[jax.Array, Params]],
    x: Params,
    view: ClientView,
    key: Key,
    lr: Scalar,
) -> tuple[Params, Plan, Metrics]:
    """Local descent from x along `direction(y, step) -> (loss, direction)`.

    Returns the last local model, the plan it followed and the mean loss.
    """
    plan = local.plan(view, key)

    def step(y: Params, now: Step) -> tuple[Params, jax.Array]:
        value, d = direction(y, now)
        return local.descend(y, d, lr, now), value

    y, values = local_scan(step, x, view, plan)
    return y, plan, {"loss": values.sum() / num_steps(plan)}
