"""Objects are told apart by what they are made of, alike in every process."""

import dataclasses
import os
import subprocess
import sys

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_mos as fm
from fedjax_mos.contents import contents
from fedjax_mos.tree import fingerprint

SCALE = 2.0


def scaled(x):
    return SCALE * x


def by_a_helper(x):
    return scaled(x) + 1


def power(n, *, shift=0.0):
    return lambda x: x**n + shift


class Net(nn.Module):
    """A module of the user's."""

    width: int = 3

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x)


class Other(Net):
    """The same fields and another body."""

    def __call__(self, x):
        return x


@dataclasses.dataclass
class Box:
    held: object


PAIRS = {
    "code": (lambda x: x * 1, lambda x: x * 0),
    "closure": (power(2), power(3)),
    "nested closure": (power(2, shift=0.1), power(2, shift=0.2)),
    "default": (lambda x, n=1: x, lambda x, n=2: x),
    "jitted": (jax.jit(power(2)), jax.jit(power(3))),
    "module": (Net(3), Net(4)),
    "module's body": (Net(3), Other(3)),
    "dataclass": (Box(np.ones(3)), Box(np.ones(4))),
    "optimizer": (optax.sgd(0.1), optax.sgd(0.2)),
    "spec": (
        fm.spec(optax.sgd, learning_rate=0.1),
        fm.spec(optax.sgd, learning_rate=1),
    ),
    "library": (jnp.tanh, jnp.sin),
    "nesting": ([1, [2], 3], [1, [2, 3]]),
    "mapping": ({"a": power(2)}, {"a": power(3)}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_objects_are_told_apart(name):
    """A result that is given back for a loss that was changed since."""
    one, other = PAIRS[name]
    assert contents(one) == contents(one) != contents(other)


def test_the_globals_of_a_function_count(monkeypatch):
    """A constant or a helper that is edited between two calls."""
    before = contents(by_a_helper)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    assert contents(by_a_helper) != before
    monkeypatch.undo()
    assert contents(by_a_helper) == before


def test_what_tells_nothing_is_never_taken_for_the_same():
    """Two objects without contents, taken for one another."""
    thing = object()
    assert contents(thing) != contents(thing)


@pytest.mark.thorough
def test_every_process_has_the_same_hashes():
    """An address, or the order of a set, in a hash that another process compares."""
    code = (
        "from tests.test_contents import *\n"
        "print(*(contents(one) for one, _ in PAIRS.values()))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert len(said) == 1


def test_arrays_are_told_apart_by_shape_type_and_border():
    """Other data with the same bytes."""
    ones = np.ones(6, np.float32)
    others = [
        ones,
        ones.reshape(2, 3),
        ones.view(np.int32),
        [ones[:2], ones[2:]],
        [ones[:3], ones[3:]],
    ]
    assert len({fingerprint(one) for one in others}) == len(others)
    half = jnp.ones(3, jnp.bfloat16)
    assert fingerprint(half) == fingerprint(half) != fingerprint(2 * half)
    assert fingerprint(jax.random.key(1)) != fingerprint(jax.random.key(2))
