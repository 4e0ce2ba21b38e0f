"""Plans: which examples a client sees, step by step."""

import jax
import jax.numpy as jnp

from fedjax_mos.target import GPUS, platform
from fedjax_mos.types import ClientView, Key, MakePlan, Plan, PyTree

_FEW, _SMALL = 8, 100_000  # steps, and numbers of a client, that are worth unrolling


def shuffled(view: ClientView, key: Key) -> jax.Array:
    """The client's rows in random order, then -1 up to the largest client's size."""
    position = jnp.arange(view.largest)
    draws = jnp.where(
        position < view.size, jax.random.uniform(key, (view.largest,)), jnp.inf
    )
    rows = view.order[view.offset + jnp.argsort(draws)]
    return jnp.where(position < view.size, rows, -1)


def with_replacement(steps: int, batch_size: int) -> MakePlan:
    """`steps` minibatches of `batch_size` examples, each drawn independently."""
    check_positive(steps=steps, batch_size=batch_size)

    def plan(view: ClientView, key: Key) -> Plan:
        k_rows, k_steps = jax.random.split(key)
        draws = jax.random.randint(k_rows, (steps, batch_size), 0, view.size)
        return Plan(
            rows=view.order[view.offset + draws],
            active=None,
            epoch=jnp.zeros(steps, jnp.int32),
            keys=jax.random.split(k_steps, steps),
        )

    return plan


def epochs(epochs: int, batch_size: int) -> MakePlan:
    """Each example exactly `epochs` times, reshuffled; short last batches are kept.

    A client of n examples takes epochs * ceil(n / batch_size) active steps.
    """
    check_positive(epochs=epochs, batch_size=batch_size)

    def plan(view: ClientView, key: Key) -> Plan:
        k_rows, k_steps = jax.random.split(key)
        per_epoch = -(-view.largest // batch_size)
        steps = epochs * per_epoch
        rows = jax.vmap(shuffled, (None, 0))(view, jax.random.split(k_rows, epochs))
        padding = per_epoch * batch_size - view.largest
        rows = jnp.pad(rows, ((0, 0), (0, padding)), constant_values=-1)
        rows = rows.reshape(steps, batch_size)
        active = rows[:, 0] >= 0
        # An inactive step still computes: on a real example, so that it stays finite.
        rows = jnp.where(active[:, None], rows, rows[0, 0])
        return Plan(
            rows=rows,
            active=active,
            epoch=jnp.repeat(jnp.arange(epochs), per_epoch),
            keys=jax.random.split(k_steps, steps),
        )

    return plan


def check_positive(**values: int) -> None:
    """Refuse counts below one, by name."""
    for name, value in values.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1: got {value}")


def unrolled(carry: PyTree, plan: Plan) -> int:
    """Steps in one turn of the loop: a few small ones on a GPU, elsewhere one.

    There they cost what it takes to start their kernels, of which a loop has more: 106
    in a round of W5 with it, 87 without (docs/accelerators.md).
    """
    steps, numbers = len(plan.epoch), sum(map(jnp.size, jax.tree.leaves(carry)))
    small = steps <= _FEW and numbers <= _SMALL
    return steps if small and platform() in GPUS else 1
