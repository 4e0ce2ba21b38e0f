"""Plans: which examples a client sees, step by step."""

from collections import Counter

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.client import tools as local
from tests import problem
from tests.client.toy import LARGEST, LOSS, N, over_clients, rows_of


def test_with_replacement_draws_the_clients_own_rows():
    """A row of another client would leak data between clients."""
    plan = fm.plans.with_replacement(40, 5)
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
    E, plan = 2, fm.plans.epochs(2, batch_size)
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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fm.plans.with_replacement(0, 3), "steps must be at least 1: got 0"),
        (
            lambda: fm.plans.with_replacement(3, 0),
            "batch_size must be at least 1: got 0",
        ),
        (lambda: fm.plans.epochs(-1, 3), "epochs must be at least 1: got -1"),
        (lambda: fm.plans.epochs(1, 0), "batch_size must be at least 1: got 0"),
        (
            lambda: fm.local_work(LOSS, fm.plans.epochs(1, 1), micro_batch=0),
            "micro_batch must be at least 1: got 0",
        ),
    ],
)
def test_sizes_must_be_positive(make, message):
    """An empty plan would train on nothing without a word."""
    with pytest.raises(ValueError, match=message):
        make()
