"""First states: the models that seeds draw, and what they depend on."""

import dataclasses

import chex
import jax
import numpy as np

from fedjax_mos.lab import initial
from tests.lab.tiny import TINY

OTHER = dataclasses.replace(TINY, algorithm="fedprox")


def test_seeds_begin_as_keys_do():
    """One seed, several seeds and the key of a seed give the same state."""
    made = TINY.build()
    states, keys = made.begin(np.arange(3, 5, dtype=np.int32))
    for lane, seed in enumerate((3, 4)):
        state, key = made.start(jax.random.key(seed))
        alone, same = made.begin(np.int32(seed))
        chex.assert_trees_all_close(alone, state, rtol=1e-6)
        of_lane = jax.tree.map(lambda leaf, i=lane: leaf[i], states)
        chex.assert_trees_all_close(of_lane, state, rtol=1e-6)
        data = [jax.random.key_data(k) for k in (key, same, keys[lane])]
        assert (data[0] == data[1]).all() and (data[0] == data[2]).all()


def test_methods_begin_with_the_same_model(monkeypatch):
    """A seed's model is that of every method, and its program is made once."""
    traced, plain = [], initial.initial_model

    def counted(network, key):
        traced.append(network)
        return plain(network, key)

    monkeypatch.setattr(initial, "initial_model", counted)
    fresh = {"clients": 7}  # of no other test
    first, second = (dataclasses.replace(one, **fresh).build() for one in (TINY, OTHER))
    models = [made.begin(np.int32(5))[0].server.params for made in (first, second)]
    chex.assert_trees_all_equal(*models)
    assert len(traced) == 1
    another = first.begin(np.int32(6))[0].server.params
    assert not all(jax.tree.leaves(jax.tree.map(np.array_equal, models[0], another)))
