"""One simulation and one compiled step per combination, shared by all tests."""

from functools import cache

import jax
import pytest

import fedjax_mos as fm
from tests import problem
from tests.contracts import table
from tests.contracts.table import BACKENDS, PLANS

COHORT = 3


def thrifty(names, often, others=pytest.mark.slow):
    """Parameters of which all but `often` are for slow (or thorough) runs."""
    return [pytest.param(n, marks=() if n in often else others) for n in names]


@cache
def simulate(name, plan="steps", backend="vmapped", neutral=False):
    """The row `name` on the toy population."""
    return build(name, plan, BACKENDS[backend](), neutral=neutral)


def build(name, plan="steps", backend=None, sampler=None, neutral=False):
    """A simulation of its own, with any backend and sampler."""
    return fm.simulation(
        table.spec_of(name, neutral),
        fm.local_work(
            fm.losses.mean_loss(problem.tanh_net),
            PLANS[plan],
            forward=problem.tanh_forward,
        ),
        table.sampler_of(name) if sampler is None else sampler,
        cohort=COHORT,
        backend=backend,
        **table.channels_of(name),
    )


@cache
def compiled(sim):
    """The jitted step; `traces(sim)` counts how often it was traced."""

    def step(data, state, key):
        _traces[sim] = traces(sim) + 1
        return sim.step(data, state, key)

    return jax.jit(step)


_traces = {}


def traces(sim):
    return _traces.get(sim, 0)


def start(sim, seed=0, hp=None):
    return sim.init(problem.tanh_params(), problem.data(), jax.random.key(seed), hp)


def rounds(sim, count, seed=0, hp=None):
    """The state after `count` rounds."""
    state, data, key = start(sim, seed, hp), problem.data(), jax.random.key(seed)
    for t in range(count):
        state, _ = compiled(sim)(data, state, jax.random.fold_in(key, t))
    return state
