"""What clients set aside of their examples for their own evaluation."""

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.data.held_out import set_aside

SIZES = np.array([3, 10, 1, 0, 20, 7])


def store(sizes=SIZES, seed=0):
    """Clients with unlike sizes, one of them empty; examples in a random order."""
    total = int(sizes.sum())
    order = np.random.default_rng(seed).permutation(total)
    x = jnp.arange(total, dtype=jnp.float32)[:, None]
    offset = np.cumsum(sizes) - sizes
    parts = (jnp.asarray(a, jnp.int32) for a in (order, offset, sizes))
    return fm.types.FederatedData(x, jnp.zeros(total), *parts, largest=sizes.max())


def owned(data):
    """Each client's rows of the store, as sets."""
    order, offset, size = (np.asarray(a) for a in (data.order, data.offset, data.size))
    return [set(order[o : o + n]) for o, n in zip(offset, size, strict=True)]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.3, 0.5, 0.7, 0.99])
def test_every_client_gives_a_share_of_its_own(share):
    """floor(share x size), disjoint from what is left, and both are all it had."""
    data = store()
    train, own = set_aside(data, share, seed=3)
    exact = [int(round(100 * share)) * int(n) // 100 for n in SIZES]
    assert own.size.tolist() == exact
    assert (train.size + own.size).tolist() == SIZES.tolist()
    assert (train.largest, own.largest) == (train.size.max(), own.size.max())
    for before, left, given in zip(*map(owned, (data, train, own)), strict=True):
        assert not left & given and left | given == before
    assert train.x is data.x and own.y is data.y  # examples stay where they are


def test_a_share_that_is_whole_is_not_rounded_down():
    """0.7 x 10 is 7, whatever floating point says of 0.1 x 3 and the like."""
    for share in (0.1, 0.2, 0.3, 0.6, 0.7):
        own = set_aside(store(np.array([10, 100])), share, 0)[1]
        assert own.size.tolist() == [round(10 * share), round(100 * share)]


def test_the_seed_decides():
    """The same seed draws the same examples, another one others."""
    first, again, other = (set_aside(store(), 0.5, seed)[1] for seed in (1, 1, 2))
    assert first.order.tolist() == again.order.tolist()
    assert owned(first) != owned(other)


def test_examples_are_drawn_at_random():
    """Every one of a client's examples is given up about as often as another."""
    data = store(np.array([4, 6]))
    count = np.zeros(10)
    for seed in range(400):
        count[np.asarray(set_aside(data, 0.5, seed)[1].order)] += 1
    # Binomial with 400 draws of probability 1/2: standard deviation 10.
    assert np.abs(count - 200).max() < 45


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5])
def test_a_share_lies_between_nothing_and_all(share):
    """The message names the number."""
    with pytest.raises(ValueError, match=rf"in \(0, 1\): got {share}"):
        set_aside(store(), share, 0)


def test_somebody_must_have_something_to_give():
    """A share that leaves nobody an example to be measured on is refused."""
    with pytest.raises(ValueError, match="0.04 of the largest client's 20 examples"):
        set_aside(store(), 0.04, 0)


def test_an_experiment_sets_aside_before_it_trains():
    """The store held_out has what the training store lacks; the seed is the data's."""
    made = fm.Experiment(clients=6, cohort=2, held_out=0.25, data_seed=5).build()
    whole = fm.Experiment(clients=6, cohort=2, data_seed=5).build().data
    assert made.data is made.stores["train"]
    own = made.stores["held_out"]
    np.testing.assert_array_equal(own.size, np.asarray(whole.size) // 4)
    for before, left, given in zip(*map(owned, (whole, made.data, own)), strict=True):
        assert left | given == before and not left & given
    with pytest.raises(ValueError, match="where the data have a part held_out"):
        stores = {"train": store(), "held_out": store()}
        fm.Experiment(dataset=stores, cohort=2, held_out=0.2).build()
    with pytest.raises(ValueError, match=r"held_out must lie in \[0, 1\): got 1"):
        fm.Experiment(held_out=1)
