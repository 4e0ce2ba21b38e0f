"""What every algorithm promises, over the table."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.contracts import harness
from tests.contracts.harness import thrifty
from tests.contracts.table import ALGORITHMS, BACKENDS, KINDS, PLANS

algorithms = pytest.mark.parametrize(
    "name", thrifty(ALGORITHMS, KINDS, pytest.mark.thorough)
)
one_of_each_kind = pytest.mark.parametrize("name", thrifty(ALGORITHMS, KINDS))


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


@algorithms
def test_a_step_is_pure_and_compiles_once(name):
    """Hidden state would make equal calls differ; a weak type would recompile."""
    sim = harness.simulate(name)
    before = harness.traces(sim)
    once, again = harness.rounds(sim, 3), harness.rounds(sim, 3)
    chex.assert_trees_all_equal(once.server, again.server)
    assert harness.traces(sim) <= before + 1
    changed = jax.tree.map(
        lambda a, b: bool((a != b).any()),
        once.server.params,
        problem.tanh_params(),
    )
    assert all(jax.tree.leaves(changed))


@one_of_each_kind
def test_a_step_is_the_same_without_jit(name):
    """Compilation must not change the method."""
    sim, data = harness.simulate(name), problem.data()
    state, key = harness.start(sim), jax.random.key(1)
    fast = harness.compiled(sim)(data, state, key)
    plain = sim.step(data, state, key)
    chex.assert_trees_all_close(fast[0].server, plain[0].server, rtol=1e-5, atol=1e-6)


def layouts():
    """One algorithm of each kind with ragged clients in chunks and over devices."""
    for name in ALGORITHMS:
        for plan in PLANS:
            for backend in BACKENDS:
                common = plan == "epochs" and backend in (
                    "chunked",
                    "sharded one by one",
                )
                often = common and name in KINDS
                if backend != "vmapped":
                    marks = pytest.mark.thorough if often else pytest.mark.slow
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


@pytest.mark.thorough
@one_of_each_kind
def test_the_debug_backend_agrees(name):
    """Debugging must show what the compiled program computes."""
    data, key, cohort = problem.data(), jax.random.key(0), problem.fixed_cohort([4, 1])
    sim = harness.build(name, "epochs", sampler=cohort)
    slow = harness.build(name, "epochs", fm.backends.debug(), cohort)
    state = harness.start(sim)
    expected = jax.jit(sim.step)(data, state, key)
    chex.assert_trees_all_close(
        slow.step(data, state, key), expected, rtol=2e-5, atol=1e-6
    )


@algorithms
def test_the_order_of_slots_does_not_matter(name):
    """Keys come from client ids, not from slots."""
    data, key = problem.data(), jax.random.key(0)
    weights = jnp.array([0.5, 0, 0, 0.2, 0, 0.3])

    def choose(ids, view, key):
        return fm.types.Cohort(ids, weights[ids], jnp.ones(3, bool)), ids

    sampler = fm.types.Sampler(lambda view, key: jnp.array([0, 3, 5]), choose)
    sim = harness.build(name, sampler=sampler)
    state = harness.start(sim)
    step = jax.jit(sim.step)
    results = []
    for ids in ([0, 3, 5], [5, 0, 3]):
        after, _ = step(data, state._replace(sampler=jnp.array(ids)), key)
        results.append((after.server, after.clients))
    chex.assert_trees_all_close(*results, rtol=1e-5, atol=1e-6)


@pytest.mark.thorough
@one_of_each_kind
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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "plan"),
    [
        (name, plan)
        for name, row in ALGORITHMS.items()
        if row.neutral is not None
        for plan in row.plans
    ],
)
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
    state, d = harness.start(sim), sum(map(jnp.size, problem.tanh_params().values()))
    for t in range(3):
        state, info = harness.compiled(sim)(problem.data(), state, jax.random.key(t))
        live = np.asarray(info.cohort.mask)
        for bits, first, later, numbers in (
            (info.bits_up, row.first_up, row.trees_up, row.numbers_up),
            (info.bits_down, row.first_down, row.trees_down, row.numbers_down),
        ):
            assert bits.dtype == jnp.uint32
            trees = later if t or first is None else first
            if trees is not None:
                np.testing.assert_array_equal(bits, 32 * (d * trees + numbers) * live)
    kept = [x for x in jax.tree.leaves(state.clients) if x.dtype != bool]
    assert sum(leaf[0].size for leaf in kept) == d * row.trees_client
