"""Hyperparameters by round, and arrays that are none."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_mos as fm
from tests import problem
from tests.problem import Server

pytestmark = pytest.mark.thorough

RATES = [0.1, 0.4, 0.2]
COHORT = problem.fixed_cohort([1, 4, 0])


def simulation(lr, factory=fm.algorithms.fedmos, **options):
    return fm.simulation(fm.spec(factory, lr=lr, **options), problem.work(), COHORT)


def begin(sim, hp=None):
    data, key = problem.data(), jax.random.key(2)
    return sim, data, sim.init(problem.tanh_params(), data, key, hp), key


def changed_by_hand(sim, put):
    """Three rounds with `put(state, rate)` before each."""
    sim, data, state, key = begin(sim)
    step = jax.jit(sim.step)
    for t, rate in enumerate(RATES):
        state = put(state, jnp.asarray(rate))
        state, _ = step(data, state, jax.random.fold_in(key, t))
    return state.server


def put_lr(state, rate):
    hp = state.hp | {"algorithm": state.hp["algorithm"] | {"lr": rate}}
    return state._replace(hp=hp)


@pytest.mark.parametrize(
    "how", ["in the spec", pytest.param("at init", marks=pytest.mark.thorough)]
)
def test_round_t_has_value_t(how):
    """A run with a schedule is the run whose lr is changed by hand every round."""
    schedule = fm.Schedule(RATES)
    given = how == "in the spec"
    made = begin(
        simulation(schedule if given else 0.1),
        None if given else {"algorithm": {"lr": schedule}},
    )
    state, _ = jax.jit(fm.rollout, static_argnums=(0, 4))(*made, 3)
    expected = changed_by_hand(simulation(0.1), put_lr)
    chex.assert_trees_all_close(state.server, expected, rtol=1e-6, atol=1e-7)
    _, data, start, key = made
    again, frame = fm.run(made[0], data, start, key, 3, progress=False)
    chex.assert_trees_all_close(again.server, expected, rtol=1e-6, atol=1e-7)
    assert len(frame) == 3


def test_a_nested_number_may_have_a_schedule():
    """The server's optimiser takes the round's value as FedAvg's server_lr does."""
    server = fm.spec(optax.sgd, learning_rate=fm.Schedule(RATES))
    sim = simulation(0.3, fm.algorithms.fedopt, server_optimizer=server)
    state, _ = fm.rollout(*begin(sim), 3)

    def put(state, rate):
        hp = state.hp | {"algorithm": state.hp["algorithm"] | {"server_lr": rate}}
        return state._replace(hp=hp)

    expected = changed_by_hand(simulation(0.3, fm.algorithms.fedavg), put)
    chex.assert_trees_all_close(
        state.server.params, expected.params, rtol=1e-6, atol=1e-7
    )


def test_a_function_is_no_schedule():
    """Its values are wanted: the call that makes them is said."""
    with pytest.raises(ValueError, match=r"fm.Schedule.of\(function, rounds\)"):
        fm.Schedule(lambda t: 0.1)


@pytest.mark.parametrize("go", [fm.run, fm.rollout])
def test_a_schedule_that_ends_too_early_is_refused(go):
    """The last value must not silently stand for rounds that have none."""
    quiet = {"progress": False} if go is fm.run else {}
    made = begin(simulation(fm.Schedule(RATES)))
    message = "the schedule algorithm.lr must have a value for each of 4 rounds: got 3"
    with pytest.raises(ValueError, match=message):
        go(*made, 4, **quiet)
    sim, data, state, key = made
    state, _ = go(sim, data, state, key, 2, **quiet)
    with pytest.raises(ValueError, match=message):  # 2 + 2 rounds
        go(sim, data, state, key, 2, **quiet)
    state, _ = go(sim, data, state, key, 1, **quiet)
    assert int(state.round) == 3


def each_its_own(local, *, rates: jax.Array):
    """Every client sends its own entry of `rates`, and how many there are."""

    def client(down, mine, view, key):
        sent = jnp.zeros(6).at[view.id].set(rates[view.id])
        return (sent, jnp.asarray(rates.shape[0])), mine, {}

    def server(state, agg):
        return Server(state.params, agg.sum)

    def init(params, key):
        return Server(params, (jnp.zeros(6), jnp.zeros((), int))), ()

    return fm.Algorithm(init, (fm.Exchange(lambda s: (), client, server),))


def test_another_array_arrives_whole():
    """One number per client is no schedule: every round sees all of it."""
    rates = np.linspace(1.0, 2.0, 6)
    sim = fm.simulation(fm.spec(each_its_own, rates=rates), problem.work(), COHORT)
    state, _ = fm.rollout(*begin(sim), 2)
    sent, counts = state.server.seen
    here = np.isin(np.arange(6), [1, 4, 0])
    np.testing.assert_allclose(sent, rates * here, rtol=1e-6)
    assert int(counts) == 3 * 6


def test_a_function_of_the_round_becomes_a_schedule():
    """An optax schedule gives its values of round 0, 1, ..."""
    function = optax.exponential_decay(0.5, 1, 0.9)
    made = fm.Schedule.of(function, rounds=4)
    np.testing.assert_allclose(made.values, 0.5 * 0.9 ** np.arange(4), rtol=1e-6)
    assert len(made) == 4 and float(made.at(jnp.array(2))) == pytest.approx(0.405)


def test_a_schedule_is_a_tree_with_one_leaf():
    """It can be stacked, mapped and differentiated like any other number."""
    made = fm.Schedule(RATES)
    double = jax.tree.map(lambda v: 2 * v, made)
    assert isinstance(double, fm.Schedule) and dataclasses.is_dataclass(double)
    np.testing.assert_allclose(double.values, 2 * np.array(RATES))
    slope = jax.grad(lambda s: s.at(jnp.array(1)) ** 2)(jax.tree.map(jnp.asarray, made))
    np.testing.assert_allclose(slope.values, [0, 0.8, 0], rtol=1e-6)


def test_values_out_of_range_are_refused():
    """Every value of a schedule lies where a constant would have to."""
    with pytest.raises(ValueError, match=r"lr must lie in \(0, inf\)"):
        simulation(fm.Schedule([0.1, -0.1]))
    with pytest.raises(ValueError, match=r"algorithm.lr must lie in \(0, inf\)"):
        begin(simulation(0.1), {"algorithm": {"lr": fm.Schedule([0.1, 0.0])}})


@pytest.mark.parametrize("values", [[], np.ones((3, 10))], ids=["empty", "table"])
def test_a_schedule_is_a_list(values):
    """A table or nothing at all is refused where it is given."""
    with pytest.raises(ValueError, match="lr must be a list with one value per round"):
        fm.spec(fm.algorithms.fedavg, lr=fm.Schedule(values))


def test_a_schedule_may_decay_to_nothing():
    """What float32 cannot hold at its end is 0 there, as a single number is not."""
    rates = fm.Schedule(0.1 * 0.8 ** np.arange(500))
    fm.Experiment(rounds=500, options={"lr": rates})
    with pytest.raises(ValueError, match="float32 can hold"):
        fm.Experiment(options={"lr": 1e-49})
