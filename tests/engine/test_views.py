"""What a component may know: who and when it is, its key, the state, its own slot."""

from functools import partial

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from tests import problem
from tests.problem import Server

pytestmark = pytest.mark.thorough

N = len(problem.SIZES)
BACKENDS = {
    "vmapped": fm.backends.vmapped(),
    "chunked": fm.backends.chunked(2),
    "sharded": fm.backends.sharded(),
    "debug": fm.backends.debug(),
}


def begin(algorithm, sampler=None, seed=0, key=jax.random.key, **more):
    """(sim, data, state, key) on the toy population; clients 4, 1 and 3 by default."""
    sampler = problem.fixed_cohort([4, 1, 3]) if sampler is None else sampler
    sim, data = (
        fm.simulation(algorithm, problem.work(), sampler, **more),
        problem.data(),
    )
    return sim, data, sim.init(problem.tanh_params(), data, key(seed)), key(seed)


# ---- clients -------------------------------------------------------------------------


def signing(local):
    """Every client sends (1, its offset, the round) at the place of its number."""

    def client(down, mine, view, key):
        entry = jnp.stack([jnp.ones((), int), view.offset, view.round]).astype(float)
        return jnp.zeros((N, 3)).at[view.id].set(entry), mine + view.id, {"id": view.id}

    def server(state, agg):
        return Server(state.params, agg.sum)

    def init(params, key):
        return Server(params, jnp.zeros((N, 3))), jnp.zeros((), jnp.int32)

    return fm.Algorithm(init, (fm.Exchange(lambda s: (), client, server),))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_client_knows_its_number_and_the_round(backend):
    """The view's id is the client's, whatever its slot; its round is the engine's."""
    sim, data, state, key = begin(fm.spec(signing), backend=BACKENDS[backend])
    state = state._replace(round=state.round + 5)
    step = sim.step if backend == "debug" else jax.jit(sim.step)
    for t in (5, 6):
        state, info = step(data, state, key)
        expected = np.zeros((N, 3))
        for i in (4, 1, 3):
            expected[i] = [1, sum(problem.SIZES[:i]), t]
        np.testing.assert_array_equal(state.server.seen, expected)
        np.testing.assert_array_equal(info.slots["id"], [4, 1, 3])
    np.testing.assert_array_equal(state.clients.mine, [0, 2, 0, 6, 8, 0])


def test_slots_are_what_the_means_are_of():
    """info.slots tells clients apart; dead slots are in it but not in the mean."""
    mask = (True, False, True)
    sampler = problem.fixed_cohort([4, 2, 3], [0.5, 0.1, 0.4], mask)
    sim, data, state, key = begin(fm.spec(fm.algorithms.fedavg), sampler)
    _, info = jax.jit(sim.step)(data, state, key)
    assert info.slots["loss"].shape == (3,)
    live = np.asarray(info.slots["loss"])[[0, 2]]
    assert live[0] != live[1]
    np.testing.assert_allclose(info.metrics["loss"], live.mean(), rtol=1e-6)
    _, trace = fm.rollout(sim, data, state, key, 2)
    assert trace.info.slots["loss"].shape == (2, 3)


# ---- keys ----------------------------------------------------------------------------


def noisy(local, *, exchanges: int = 1):
    """A server that starts from noise and draws some after every exchange."""

    def client(down, mine, view, key):
        return jnp.zeros(()), mine, {}

    def server(state, agg):
        start, _, *drawn = state.seen  # the oldest draw makes room
        drawn.append(jax.random.normal(agg.key, (4,)))
        return Server(state.params, (start, *drawn))

    def init(params, key):
        zeros = (jnp.zeros(4),) * exchanges
        return Server(params, (jax.random.normal(key, (4,)), *zeros)), ()

    exchange = fm.Exchange(lambda s: (), client, server)
    return fm.Algorithm(init, (exchange,) * exchanges)


def noise(seed, exchanges=1, rounds=2):
    """What the server drew: at the start, and [round, exchange]."""
    made = begin(fm.spec(noisy, exchanges=exchanges), seed=seed)
    _, trace = fm.rollout(*made, rounds, report=lambda s, info: s.server.seen[1:])
    return np.asarray(made[2].server.seen[0]), np.stack(trace.reported, 1)


def test_the_server_has_a_key_of_its_own():
    """agg.key makes noise that differs by round, exchange and seed, and comes again."""
    first, drawn = noise(0, exchanges=2)
    again, same = noise(0, exchanges=2)
    np.testing.assert_array_equal(drawn, same)
    np.testing.assert_array_equal(first, again)
    other_first, others = noise(1, exchanges=2)
    every = np.concatenate([drawn.reshape(-1), others.reshape(-1), first, other_first])
    assert len(np.unique(every)) == every.size == 2 * (2 * 2 * 4 + 4)


def test_a_server_that_does_not_draw_changes_nothing():
    """The server's key takes nothing from those of the clients: bits stay."""
    plain = fm.spec(fm.algorithms.fedavg, lr=0.3)

    def drawing(local, *, lr: float = 0.3):
        made = fm.algorithms.fedavg(local, lr=lr)
        (exchange,) = made.exchanges

        def server(state, agg):
            unused = jax.random.normal(agg.key, ()) * 0
            after = exchange.server(state, agg)
            params = jax.tree.map(lambda p: p + unused, after.params)
            return after._replace(params=params)

        return made._replace(exchanges=(exchange._replace(server=server),))

    ends = [
        fm.rollout(*begin(a), 2)[0].server.params for a in (plain, fm.spec(drawing))
    ]
    chex.assert_trees_all_equal(*ends)


def test_a_key_of_the_old_kind_is_the_same_key():
    """jax.random.PRNGKey works in init, run and rollout, and equals jax.random.key."""
    ends = []
    for make in (jax.random.key, jax.random.PRNGKey):
        made = begin(fm.spec(noisy), seed=3, key=make)
        end, trace = fm.rollout(*made, 2)
        ran, frame = fm.run(*made, 2, progress=False)
        ends.append((end.server, ran.server, trace.info.bits_up))
        assert len(frame) == 2
    chex.assert_trees_all_equal(*ends)
    sim, data, state, _ = begin(fm.spec(noisy))
    lanes = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
    for keys in (
        jax.random.split(jax.random.key(3)),
        jax.random.split(jax.random.PRNGKey(3)),
    ):
        ran, frame = fm.run(sim, data, lanes, keys, 1, progress=False)
        ends.append(ran.server.seen)
        assert set(frame["lane"]) == {0, 1}
    chex.assert_trees_all_equal(*ends[2:])


# ---- evaluations and reports ---------------------------------------------------------


def personal(state):
    """The last local model of client 3, from its row."""
    return jax.tree.map(lambda leaf: leaf[3], state.clients.mine.model)


def test_an_evaluation_sees_the_state():
    """A personal model in a client's row can be evaluated like the server's."""
    sim, data, state, key = begin(fm.spec(fm.algorithms.moon, lr=0.3))
    measure, stores = fm.losses.measures(problem.tanh_net), {"train": problem.data()}
    own = fm.evaluator(measure, model=personal)
    shared = fm.evaluator(measure)

    def both(state, stores):
        mine = own(state, stores)
        return shared(state, stores) | {f"own_{n}": v for n, v in mine.items()}

    end, trace = fm.rollout(sim, data, state, key, 2, evaluate=both, stores=stores)
    loss = fm.losses.mean_loss(problem.tanh_net)
    x, y = problem.arrays()
    batch = fm.types.Batch(x, y, np.ones(len(y), bool))
    for name, model in (("own_", personal(end)), ("", end.server.params)):
        expected = loss(model, batch, None)
        got = trace.evaluated[f"{name}train_loss"][-1]
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    _, frame = fm.run(
        sim, data, state, key, 2, evaluate=both, stores=stores, progress=False
    )
    np.testing.assert_allclose(
        frame["own_train_loss"], trace.evaluated["own_train_loss"], rtol=1e-5
    )
    assert (frame["own_train_loss"] != frame["train_loss"]).all()


@pytest.mark.parametrize("lanes", [False, True])
def test_a_report_fills_columns_and_cells(lanes):
    """`report` gives further columns after every round; an array fills one cell."""
    sim, data, state, key = begin(fm.spec(signing))
    if lanes:
        key = jax.random.split(key)
        state = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)

    def report(state, info):
        return {"seen": state.server.seen[:, 2], "first": info.slots["id"][0]}

    _, frame = fm.run(sim, data, state, key, 3, report=report, progress=False)
    assert len(frame) == (6 if lanes else 3) and (frame["first"] == 4).all()
    for cell, number in zip(frame["seen"], frame["round"], strict=True):
        t = number - 1  # rounds count from one for people
        np.testing.assert_array_equal(cell, [0, t, 0, t, t, 0])


# ---- what is refused -----------------------------------------------------------------


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.BatchNorm(use_running_average=False)(x))


def test_running_statistics_are_refused():
    """batch_stats are no parameters: no method averages them, and init says so."""
    sim, data = begin(fm.spec(signing))[:2]
    variables = Normalised().init(jax.random.key(0), jnp.zeros((2, 3)))
    with pytest.raises(ValueError, match="with batch_stats besides.*GroupNorm"):
        sim.init(variables, data, jax.random.key(0))
    only = {"params": problem.tanh_params()}  # a tree that happens to have that name
    assert sim.init(only, data, jax.random.key(0)).server.params.keys() == {"params"}


@pytest.mark.parametrize(
    ("ids", "mask", "message"),
    [
        ([0, 6], None, r"ids must lie in \[0, 5\]: got 6"),
        ([-1, 2], None, r"ids must lie in \[0, 5\]: got -1"),
        ([2, 4, 2], None, "one slot of a cohort: client 2 has 2"),
    ],
)
def test_the_debug_backend_checks_cohorts(ids, mask, message):
    """A sampler's mistake is named where compiled code would clip the index."""
    sampler = problem.fixed_cohort(ids, mask=mask)
    debug = fm.backends.debug()
    sim, data, state, key = begin(fm.spec(signing), sampler, backend=debug)
    with pytest.raises(ValueError, match=message):
        sim.step(data, state, key)


def test_the_debug_backend_allows_a_dead_copy():
    """A client may fill dead slots besides its own, as padding does."""
    sampler = problem.fixed_cohort([2, 4, 2], mask=[True, True, False])
    debug = fm.backends.debug()
    sim, data, state, key = begin(fm.spec(signing), sampler, backend=debug)
    state, _ = sim.step(data, state, key)
    np.testing.assert_array_equal(state.server.seen[:, 0], [0, 0, 1, 0, 1, 0])


# ---- models --------------------------------------------------------------------------


def test_a_staged_models_forward_fits_local_work():
    """partial(models.forward, model) is what methods that look inside take."""
    model = fm.models.mlp(problem.CLASSES, hidden=(4,))
    params = fm.models.init(model, jax.random.key(0), jnp.zeros((1, problem.FEATURES)))
    work = fm.local_work(
        fm.losses.mean_loss(partial(fm.models.apply, model)),
        fm.plans.with_replacement(2, 4),
        forward=partial(fm.models.forward, model),
    )
    sampler = problem.fixed_cohort([4, 1])
    data, key = problem.data(), jax.random.key(0)
    for name in ("moon", "fedmlb"):
        made = fm.spec(getattr(fm.algorithms, name))
        sim = fm.simulation(made, work, sampler)
        state, _ = fm.rollout(sim, data, sim.init(params, data, key), key, 2)
        chex.assert_tree_all_finite(state.server.params)
        chex.assert_trees_all_equal_shapes(state.server.params, params)
