"""What every algorithm promises, over the table."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.contracts import harness
from tests.contracts.table import ALGORITHMS, ALWAYS, BACKENDS, PLANS

algorithms = pytest.mark.parametrize("name", ALGORITHMS)


@algorithms
def test_a_step_keeps_the_state_scannable(name):
    """Else a run could not be a scan."""
    sim = harness.simulate(name)
    before = harness.start(sim)
    after, info = harness.compiled(sim)(problem.data(), before, jax.random.key(1))
    chex.assert_trees_all_equal_shapes_and_dtypes(before, after)
    chex.assert_trees_all_equal_structs(before.server.params, problem.tanh_params())
    assert isinstance(info, fm.types.RoundInfo)
    assert int(after.round) == 1
    changed = jax.tree.map(
        lambda a, b: bool((a != b).any()), after.server.params, before.server.params
    )
    assert all(jax.tree.leaves(changed))


@algorithms
def test_a_step_is_pure(name):
    """Hidden state would make equal calls differ, or differ from the unjitted one."""
    sim, data = harness.simulate(name), problem.data()
    state, key = harness.start(sim), jax.random.key(1)
    once = harness.compiled(sim)(data, state, key)
    again = harness.compiled(sim)(data, state, key)
    chex.assert_trees_all_equal(once[0].server, again[0].server)
    plain = sim.step(data, state, key)
    chex.assert_trees_all_close(once[0].server, plain[0].server, rtol=1e-5, atol=1e-6)


@algorithms
def test_a_step_compiles_once(name):
    """A weak type or changed shape in the returned state would compile each round."""
    sim = harness.simulate(name)
    harness.rounds(sim, 3)
    assert harness.traces(sim) == 1


def layouts():
    for name in ALGORITHMS:
        for plan in PLANS:
            for backend in BACKENDS:
                often = backend in ALWAYS and plan == "epochs"
                if backend != "vmapped":
                    marks = () if often else (pytest.mark.slow,)
                    yield pytest.param(name, plan, backend, marks=marks)


@pytest.mark.parametrize(("name", "plan", "backend"), list(layouts()))
def test_the_layout_does_not_matter(name, plan, backend):
    """Results must not depend on how clients are spread over time and devices."""
    sim = harness.simulate(name, plan)
    other = harness.simulate(name, plan, backend)
    data, state = problem.data(), harness.start(sim)
    for t in range(3):  # from the same state each round: float32 trajectories drift
        key = jax.random.key(t)
        expected = harness.compiled(sim)(data, state, key)
        got = harness.compiled(other)(data, state, key)
        chex.assert_trees_all_close(got, expected, rtol=2e-5, atol=1e-6)
        state = expected[0]


@algorithms
def test_the_debug_backend_agrees(name):
    """Debugging must show what the compiled program computes."""
    row, data, key = ALGORITHMS[name], problem.data(), jax.random.key(0)
    cohort = problem.fixed_cohort([4, 1])
    spec = fm.spec(row.factory, **row.hp, **row.options)
    sim = harness.build(spec, "epochs", sampler=cohort)
    slow = harness.build(spec, "epochs", fm.debug(), cohort)
    state = harness.start(sim)
    expected = sim.step(data, state, key)
    chex.assert_trees_all_close(
        slow.step(data, state, key), expected, rtol=2e-5, atol=1e-6
    )


@algorithms
def test_the_order_of_slots_does_not_matter(name):
    """Keys come from client ids, not from slots."""
    row, data, key = ALGORITHMS[name], problem.data(), jax.random.key(0)
    results = []
    for ids in ([0, 3, 5], [5, 0, 3]):
        weights = {0: 0.5, 3: 0.2, 5: 0.3}
        sampler = problem.fixed_cohort(ids, [weights[i] for i in ids])
        sim = harness.build(
            fm.spec(row.factory, **row.hp, **row.options), sampler=sampler
        )
        state, _ = sim.step(data, harness.start(sim), key)
        results.append((state.server, state.clients))
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)


@algorithms
def test_a_sweep_equals_single_runs(name):
    """vmap over numbers and seeds is how sweeps run."""
    sim, data = harness.simulate(name), problem.data()
    lrs, seeds = jnp.array([0.1, 0.4]), [0, 7]

    def one(lr, key):
        hp = {"algorithm": {"lr": lr}}
        state = sim.init(problem.tanh_params(), data, key, hp)
        return fm.rollout(sim, data, state, key, 2)[0].server.params

    keys = jax.vmap(jax.random.key)(jnp.array(seeds))
    swept = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))(lrs, keys)
    for i, lr in enumerate(lrs):
        for j, seed in enumerate(seeds):
            single = harness.rounds(sim, 2, seed, {"algorithm": {"lr": lr}})
            lane = jax.tree.map(lambda leaf, i=i, j=j: leaf[i, j], swept)
            chex.assert_trees_all_close(
                lane, single.server.params, rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize("name", [n for n, r in ALGORITHMS.items() if r.neutral])
@pytest.mark.parametrize("plan", PLANS)
def test_neutral_numbers_give_fedavg(name, plan):
    """Each method is FedAvg plus something that can be switched off."""
    lr = ALGORITHMS[name].hp["lr"]
    hp = {"algorithm": {"lr": lr, "server_lr": 1.0}}
    expected = harness.rounds(harness.simulate("fedavg", plan), 3, hp=hp)
    got = harness.rounds(harness.simulate(name, plan, neutral=True), 3)
    chex.assert_trees_all_close(
        got.server.params, expected.server.params, rtol=2e-5, atol=1e-6
    )


@algorithms
def test_messages_and_memory_cost_what_the_table_says(name):
    """A method that sends or keeps more than its paper is caught here."""
    row, sim = ALGORITHMS[name], harness.simulate(name)
    state, info = harness.compiled(sim)(
        problem.data(), harness.start(sim), jax.random.key(1)
    )
    d = sum(leaf.size for leaf in jax.tree.leaves(problem.tanh_params()))
    live = np.asarray(info.cohort.mask)
    np.testing.assert_array_equal(info.bits_up, 32 * d * row.trees_up * live)
    np.testing.assert_array_equal(info.bits_down, 32 * d * row.trees_down * live)
    assert info.bits_up.dtype == jnp.uint32
    kept = sum(leaf[0].size for leaf in jax.tree.leaves(state.clients))
    assert kept == d * row.trees_client
