"""Layouts on one device: clients in chunks, and one by one in plain Python."""

import chex
import jax
import jax.numpy as jnp
import pandas as pd
import pytest

import fedjax_mos as fm
from tests import problem

WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.3, server_lr=1.0)
KEY = jax.random.key(4)


def start(sim):
    return sim.init(problem.softmax_params(), problem.data(), KEY)


def device():
    """The number of the one that this is traced for; 0 without a mesh."""
    try:
        return jax.lax.axis_index("clients")
    except NameError:
        return 0


def counting(seen):
    """FedAvg whose clients say that they are at work, and on which device."""

    def build(work):
        algorithm = fm.algorithms.fedavg(work, lr=0.3, server_lr=1.0)
        (exchange,) = algorithm.exchanges

        def client(down, mine, view, key):
            jax.debug.callback(lambda *now: seen.append(now), view.size, device())
            return exchange.client(down, mine, view, key)

        return algorithm._replace(exchanges=(exchange._replace(client=client),))

    return fm.spec(build)


@pytest.mark.parametrize(
    ("chunk", "sizes"), [(1, [3, 12, 6]), (2, [3, 5, 7, 12, 6, 6])]
)
def test_blocks_of_dead_slots_do_no_work(chunk, sizes):
    """A cohort of independent draws has a third of its slots alive."""
    live = [True, False, False, False, False, True, True]  # of the last block one is
    sampler = problem.fixed_cohort([0, 5, 1, 1, 2, 3, 4], mask=jnp.array(live))
    seen: list[tuple] = []
    sims = [
        fm.simulation(counting(seen), WORK, sampler, backend=backend)
        for backend in (fm.backends.chunked(chunk), fm.backends.vmapped())
    ]
    states = []
    for sim in sims:
        state, _ = jax.jit(sim.step)(problem.data(), start(sim), KEY)
        jax.effects_barrier()
        states.append(state)
        if len(states) == 1:
            assert sorted(int(size) for size, _ in seen) == sorted(sizes)
    chex.assert_trees_all_close(*states, rtol=1e-6)


def test_devices_have_as_many_live_slots():
    """The first device did all the work where the live slots come first."""
    live = jnp.array([True, True, True, True, False, False, False])
    sampler = problem.fixed_cohort([0, 5, 1, 2, 3, 4, 4], mask=live)
    backend = fm.backends.sharded(inner=fm.backends.chunked(1))
    seen: list[tuple] = []
    states = []
    for layout in (backend, fm.backends.vmapped()):
        sim = fm.simulation(counting(seen), WORK, sampler, backend=layout)
        states.append(jax.jit(sim.step)(problem.data(), start(sim), KEY))
        jax.effects_barrier()
        if layout is backend:
            found = sorted((int(size), int(where)) for size, where in seen)
            assert found == [(3, 0), (5, 1), (7, 1), (10, 0)]
    chex.assert_trees_all_close(*states, rtol=1e-6)


def fragile(work):
    """Fails for the client of 12 examples, once numbers are concrete."""

    def client(down, mine, view, key):
        if not isinstance(view.size, jax.core.Tracer) and int(view.size) == 12:
            raise ValueError("twelve")
        return down, mine, {}

    def server(state, agg):
        return state

    algo = fm.algorithms.fedavg(work, lr=1.0, server_lr=1.0)
    return algo._replace(exchanges=(fm.Exchange(lambda s: s.params, client, server),))


def test_the_debug_backend_names_the_client():
    """Without the client's number an error among thousands cannot be found."""
    sampler = problem.fixed_cohort([4, 3, 1])
    sim = fm.simulation(fm.spec(fragile), WORK, sampler, backend=fm.backends.debug())
    state = start(sim)
    with pytest.raises(ValueError, match="twelve") as caught:
        fm.run(sim, problem.data(), state, KEY, 1, progress=False)
    notes = "\n".join(caught.value.__notes__)
    assert "client 3 (slot 1)" in notes
    assert str((43, problem.FEATURES)) in notes  # the shapes it was given


def test_the_debug_backend_runs():
    """`run` must drive it as it drives compiled programs."""
    sims = [
        fm.simulation(AVERAGE, WORK, problem.fixed_cohort([2]), backend=backend)
        for backend in (fm.backends.debug(), fm.backends.vmapped())
    ]
    (slow, history), (fast, expected) = (
        fm.run(sim, problem.data(), start(sim), KEY, 2, progress=False) for sim in sims
    )
    chex.assert_trees_all_close(slow, fast, rtol=1e-5, atol=1e-6)
    columns = [name for name in expected if name != "seconds"]
    pd.testing.assert_frame_equal(history[columns], expected[columns], rtol=1e-5)
    traced, jitted = (
        fm.simulation(
            AVERAGE, WORK, fm.spec(fm.samplers.adaptive), cohort=2, backend=backend
        )
        for backend in (fm.backends.vmapped(), fm.backends.debug())
    )
    with pytest.raises(ValueError, match="one simulation at a time"):
        jax.eval_shape(jitted.step, problem.data(), start(traced), KEY)
