"""Many rounds, their history, and the numbers that a state carries."""

import importlib
import re
import signal
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.engine.history import History
from fedjax_mos.types import Channel, Cohort, RoundInfo, Wire
from tests import problem

module = importlib.import_module("fedjax_mos.run")  # `fm.run` is the function
METRICS = fm.classification(problem.softmax_net)
EVALUATE = fm.evaluator(METRICS, 20)
WORK = fm.local_work(fm.cross_entropy(problem.softmax_net), fm.with_replacement(2, 3))
AVERAGE = fm.spec(fm.fedavg, lr=0.3, server_lr=1.0)
KEY = jax.random.key(4)


@cache
def simulate():
    """FedMoS: it has a server state besides the model."""
    hp = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
    spec = fm.spec(fm.fedmos, first_batch="step", **hp)
    return fm.simulation(spec, WORK, fm.adaptive(3))


def start(sim=None, hp=None):
    sim = simulate() if sim is None else sim
    return sim.init(problem.softmax_params(), problem.data(), KEY, hp)


def train(rounds, state=None, key=KEY, every=1, sim=None, **options):
    """`fm.run` with evaluation on the toy population."""
    data = problem.data()
    return fm.run(
        simulate() if sim is None else sim,
        data,
        start() if state is None else state,
        key,
        rounds,
        evaluate=EVALUATE,
        stores={"train": data},
        every=every,
        progress=False,
        **options,
    )


def same_history(got, expected, **tolerance):
    columns = [name for name in expected.columns if name != "seconds"]
    got, expected = (frame[columns].reset_index(drop=True) for frame in (got, expected))
    pd.testing.assert_frame_equal(got, expected, **tolerance)


# ---- run -----------------------------------------------------------------------------


def test_four_and_two_rounds_are_six():
    """A resumed run must be the run: keys belong to rounds, not to calls."""
    state, first = train(4)
    state, second = train(2, state)
    whole, history = train(6)
    chex.assert_trees_all_close(state, whole, rtol=1e-6)
    assert history["round"].tolist() == [1, 2, 3, 4, 5, 6]
    assert second["round"].tolist() == [5, 6]
    for name in ("local_loss", "train_loss", "train_accuracy"):
        both = np.concatenate([first[name], second[name]])
        np.testing.assert_allclose(both, history[name], rtol=1e-5)
    assert history["local_loss"].nunique() == 6
    assert (np.diff(history["seconds"]) >= 0).all() and (history["seconds"] > 0).all()


def test_run_is_rollout():
    """`run` only adds a history to what transforms see."""
    data = problem.data()
    state, (info, values) = jax.jit(
        lambda d, s, k: fm.rollout(
            simulate(), d, s, k, 6, evaluate=EVALUATE, stores={"train": d}, every=2
        )
    )(data, start(), KEY)
    expected, history = train(6)
    chex.assert_trees_all_close(state, expected, rtol=1e-5, atol=1e-7)
    assert info.bits_up.shape == (6, 3)
    assert values["train_loss"].shape == (3,)
    np.testing.assert_allclose(
        values["train_loss"], history["train_loss"][1::2], rtol=1e-5
    )
    np.testing.assert_allclose(info.metrics["loss"], history["local_loss"], rtol=1e-5)
    total = np.asarray(info.bits_up, np.int64).sum(axis=1).cumsum()
    np.testing.assert_array_equal(history["bits_up"], total)


def test_the_callers_arrays_survive():
    """Blocks donate their state; on a CPU that deletes arrays for real."""
    data, params = problem.data(), problem.softmax_params()
    state = simulate().init(params, data, KEY)
    before = jax.tree.map(np.array, (params, data, state._replace(hp={})))
    outcomes = []
    for _ in range(2):  # the second run needs all of the first one's arguments
        out, history = fm.run(
            simulate(),
            data,
            state,
            KEY,
            6,
            evaluate=EVALUATE,
            stores={"train": data},
            progress=False,
        )
        outcomes.append(out.server)
    chex.assert_trees_all_equal(*outcomes)
    after = jax.tree.map(np.array, (params, data, state._replace(hp={})))
    chex.assert_trees_all_equal(before, after)
    assert int(state.round) == 0 and not state.server.params["w"].is_deleted()


def test_evaluation_every_few_rounds_and_after_the_last():
    """Missing the last round would leave a run without its result."""
    state, history = train(7, every=3)
    evaluated = history["round"][history["train_loss"].notna()].tolist()
    assert evaluated == [3, 6, 7]
    assert history["train_accuracy"].notna().sum() == 3
    assert history["local_loss"].notna().all() and len(history) == 7
    last = EVALUATE(state.server.params, {"train": problem.data()})
    got = history["train_loss"].iloc[-1]
    np.testing.assert_allclose(got, last["train_loss"], rtol=1e-5)
    _, short = train(1, every=3)
    assert short["train_loss"].notna().tolist() == [True]


@pytest.mark.parametrize("rounds", [1, 3, 10, 22, 23, 100, 137])
@pytest.mark.parametrize("every", [1, 3, 10, 200])
def test_blocks_cover_all_rounds(rounds, every):
    """A lost remainder would train fewer rounds than asked; too many shapes compile."""
    blocks = module._blocks(rounds, every)
    assert sum(length for length, _ in blocks) == rounds
    assert all(length % interval == 0 for length, interval in blocks)
    assert len(set(blocks)) <= 2
    ends, done = [], 0
    for length, interval in blocks:
        ends += range(done + interval, done + length + 1, interval)
        done += length
    assert ends == [*range(every, rounds + 1, every)] + [rounds] * (rounds % every > 0)


def test_lanes_equal_single_runs():
    """S simulations in one program must not see each other."""
    keys = jax.random.split(jax.random.key(9), 3)
    params, data = problem.softmax_params(), problem.data()
    init = simulate().init
    states = jax.vmap(lambda key: init(params, data, key))(keys)
    last, history = train(6, states, keys)
    assert history["lane"].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    for lane, key in enumerate(keys):
        state, single = train(6, init(params, data, key), key)
        rows = history[history["lane"] == lane].drop(columns="lane")
        same_history(rows, single, rtol=1e-4)
        ours = jax.tree.map(lambda leaf, i=lane: leaf[i], last)
        chex.assert_trees_all_close(ours.server, state.server, rtol=1e-4, atol=1e-6)
    assert history["train_loss"].nunique() == 18


BITS = 4_000_000_001


def expensive():
    """A channel that reports nearly as many bits as 32 can count."""

    def send(state, wire, key, context):
        return Wire(wire.value, jnp.uint32(BITS)), state

    return Channel(lambda zeros: (), send)


def test_bits_of_a_round_are_exact():
    """Three slots of four billion bits do not fit what the device counts in."""
    sim = fm.simulation(AVERAGE, WORK, fm.uniform(3), uplink=expensive())
    _, history = fm.run(sim, problem.data(), start(sim), KEY, 3, progress=False)
    assert history["bits_up"].tolist() == [3 * BITS, 6 * BITS, 9 * BITS]
    assert history["bits_up"].dtype == np.int64
    numbers = (problem.FEATURES + 1) * problem.CLASSES
    assert history["bits_down"].tolist() == [3 * 32 * numbers * t for t in (1, 2, 3)]


def test_bits_stay_exact_beyond_floats():
    """Past 2**53 a float would drop the low bits of the sum."""
    rounds, slots = 1201, 2001
    bits = np.full((rounds, slots), BITS, np.uint32)
    cohort = Cohort(np.zeros(1), np.zeros(1), np.zeros(1))
    history = History(lanes=False, first=0)
    for part in (bits[:500], bits[500:]):
        history.add((RoundInfo({}, part, part, cohort), {}), 1)
    frame = history.frame()
    expected = [t * slots * BITS for t in range(1, rounds + 1)]
    assert expected[-1] > 2**53 and float(expected[-1]) != expected[-1]
    assert frame["bits_up"].tolist() == frame["bits_down"].tolist() == expected


@pytest.mark.parametrize("visit", [1, 2])
def test_an_interrupt_returns_what_is_there(visit, monkeypatch, capsys):
    """Ctrl-C after an hour must not cost the hour."""
    add, calls = History.add, []

    def interrupted(self, *args):
        calls.append(args)
        if len(calls) == visit:
            signal.raise_signal(signal.SIGINT)
        add(self, *args)

    monkeypatch.setattr(History, "add", interrupted)
    state, history = train(66)  # visits of six rounds
    monkeypatch.undo()
    done = 6 * visit
    assert int(state.round) == len(history) == done
    assert f"interrupted after round {done} of 66" in capsys.readouterr().out
    expected, rows = train(done)
    same_history(history, rows, rtol=1e-5)
    chex.assert_trees_all_close(state.server, expected.server, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("options", [(0, 1), (-2, 1), (3, 0)])
def test_rounds_and_every_are_checked(options):
    """A run of no rounds has no history to return."""
    rounds, every = options
    message = f"rounds and every must be at least 1: got {rounds}, {every}"
    with pytest.raises(ValueError, match=message):
        train(rounds, every=every)


def test_rollout_wants_a_multiple():
    """Rounds after the last evaluation would be dropped by the reshape."""
    with pytest.raises(ValueError, match="multiple of every: 7 % 3 != 0"):
        fm.rollout(simulate(), problem.data(), start(), KEY, 7, every=3)


# ---- the data are an argument --------------------------------------------------------


BACKENDS = {
    "vmapped": fm.vmapped(),
    "chunked": fm.chunked(2),
    "sharded": fm.sharded(),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_data_are_an_argument(backend):
    """A store baked into the program would be compiled, and copied, each time."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, problem.FEATURES)).astype(np.float32)
    y = rng.integers(problem.CLASSES, size=50_000)
    data = fm.federate(x, y, fm.partition.iid(y, 6, seed=0))
    sim = fm.simulation(AVERAGE, WORK, fm.adaptive(3), backend=BACKENDS[backend])
    state = sim.init(problem.softmax_params(), data, KEY)
    jaxpr = jax.make_jaxpr(sim.step)(data, state, KEY)
    biggest = max([0, *(np.size(c) for c in constants(jaxpr))])
    assert biggest < 100 < x.size
    lowered = module._compiled.lower(
        sim, EVALUATE, data, {"train": data}, state, KEY, 2, 1
    )
    assert len(lowered.as_text()) < x.nbytes < 1_000_000


def constants(closed):
    """All constants of a jaxpr and of those inside of it."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for value in jax.tree.leaves(
            equation.params, is_leaf=lambda v: hasattr(v, "consts")
        ):
            if hasattr(value, "consts"):
                yield from constants(value)


# ---- the debug backend ---------------------------------------------------------------


def fragile(work):
    """Fails for the client of 12 examples, once numbers are concrete."""

    def client(down, mine, view, key):
        if not isinstance(view.size, jax.core.Tracer) and int(view.size) == 12:
            raise ValueError("twelve")
        return down, mine, {}

    def server(state, agg):
        return state

    algo = fm.fedavg(work, lr=1.0, server_lr=1.0)
    return algo._replace(exchanges=(fm.Exchange(lambda s: s.params, client, server),))


def test_the_debug_backend_names_the_client():
    """Without the client's number an error among thousands cannot be found."""
    sampler = problem.fixed_cohort([4, 3, 1])
    sim = fm.simulation(fm.spec(fragile), WORK, sampler, backend=fm.debug())
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
        for backend in (fm.debug(), fm.vmapped())
    ]
    (slow, history), (fast, expected) = (
        fm.run(sim, problem.data(), start(sim), KEY, 2, progress=False) for sim in sims
    )
    chex.assert_trees_all_close(slow, fast, rtol=1e-5, atol=1e-6)
    same_history(history, expected, rtol=1e-5)
    jitted = fm.simulation(AVERAGE, WORK, fm.adaptive(2), backend=fm.debug()).step
    with pytest.raises(ValueError, match="one simulation at a time"):
        jax.eval_shape(jitted, problem.data(), start(averaging()), KEY)


# ---- hyperparameters -----------------------------------------------------------------


@cache
def averaging():
    return fm.simulation(AVERAGE, WORK, fm.adaptive(3))


@cache
def stepper():
    return jax.jit(averaging().step)


def test_a_vector_is_one_value_per_round():
    """A schedule shifted by a round, or ended by zeros, trains something else."""
    rates, data = [0.1, 0.5, 0.9], problem.data()
    hp = {"algorithm": {"lr": jnp.array(rates)}}
    state = start(averaging(), hp)
    scheduled, _ = fm.run(averaging(), data, state, KEY, 5, progress=False)
    by_hand = start(averaging())
    for t, rate in enumerate([*rates, 0.9, 0.9]):  # the last value stays
        algorithm = by_hand.hp["algorithm"] | {"lr": jnp.float32(rate)}
        by_hand = by_hand._replace(hp=by_hand.hp | {"algorithm": algorithm})
        by_hand, _ = stepper()(data, by_hand, jax.random.fold_in(KEY, t))
    chex.assert_trees_all_close(
        scheduled.server.params, by_hand.server.params, rtol=1e-5, atol=1e-6
    )


def test_init_replaces_only_what_it_is_given():
    """A partial change must not reset the other numbers."""
    hp = start(averaging(), {"algorithm": {"lr": 0.7}}).hp
    assert float(hp["algorithm"]["lr"]) == np.float32(0.7)
    assert float(hp["algorithm"]["server_lr"]) == 1.0
    assert averaging().hp["algorithm"]["lr"] == 0.3


def test_unknown_names_list_the_known():
    """A typo must not silently leave the default in place."""
    with pytest.raises(ValueError, match=r"algorithm\.rate.*lr, server_lr"):
        start(averaging(), {"algorithm": {"rate": 0.1}})
    with pytest.raises(ValueError, match="algorihm.*algorithm, local, sampler"):
        start(averaging(), {"algorihm": {"lr": 0.1}})


@pytest.mark.parametrize(
    ("name", "value", "interval"),
    [
        ("lr", 0.0, "(0, inf)"),
        ("lr", -1.5, "(0, inf)"),
        ("server_momentum", 1.5, "[0, 1]"),
        ("storm", -0.25, "[0, 1]"),
        ("prox", -0.5, "[0, inf)"),
    ],
)
def test_a_number_out_of_range_is_named(name, value, interval):
    """The message must say which argument, what it got and what is allowed."""
    message = re.escape(f"algorithm.{name} must lie in {interval}: got {value}")
    with pytest.raises(ValueError, match=message):
        start(hp={"algorithm": {name: value}})


def test_schedules_are_checked_value_by_value():
    """One bad round in a schedule must not hide behind the good ones."""
    with pytest.raises(ValueError, match=r"algorithm\.lr must lie in"):
        start(hp={"algorithm": {"lr": np.array([0.1, -0.1])}})
    with pytest.raises(ValueError, match=r"algorithm\.lr must be a finite number"):
        start(hp={"algorithm": {"lr": float("nan")}})


def test_spec_splits_floats_from_the_rest():
    """A float left in the code could not be swept; an integer leaf breaks shapes."""

    def factory(work, *, rate, table, tree, vector, mode, count, flag, fn, option):
        return rate, count

    named = {
        "rate": 0.5,
        "table": np.ones(2),
        "tree": {"w": 0.1, "b": np.float32(2)},
        "vector": jnp.ones(3),
    }
    fixed = {"mode": "up", "count": 3, "flag": True, "fn": len, "option": None}
    made = fm.spec(factory, **named, **fixed)
    assert set(made.hp) == set(named)
    assert made.build.keywords == fixed
    assert made.build(None, **(made.hp | {"rate": 7.0})) == (7.0, 3)


def test_spec_rejects_unknown_names():
    """A misspelt option must fail where it is written, with the right names."""
    known = "lr, server_lr"
    with pytest.raises(ValueError, match=f"no argument 'learning_rate'.*{known}"):
        fm.spec(fm.fedavg, learning_rate=0.1)
    with pytest.raises(ValueError, match="no argument 'storn'.*storm"):
        fm.spec(fm.fedmos, storn=0.1)
    fm.spec(lambda **anything: None, whatever=0.1)  # an open end takes all


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_every_float_is_a_leaf_of_the_state(dtype):
    """Sweeps and hypergradients reach only leaves; a wrong dtype promotes the model."""
    loss, plan = fm.cross_entropy(problem.softmax_net), fm.with_replacement(2, 3)
    numbers = {
        "clip": 1.0,
        "weight_decay": 0.1,
        "epoch_decay": 0.9,
        "scale": {"w": 1.0, "b": np.float64(2.0)},
    }
    work = fm.spec(fm.local_work, loss, plan, micro_batch=4, **numbers)
    mos = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
    sim = fm.simulation(fm.spec(fm.fedmos, first_batch=4, **mos), work, fm.adaptive(3))
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), problem.softmax_params())
    state = sim.init(params, problem.data(), KEY)
    assert set(state.hp["algorithm"]) == set(mos)
    assert set(state.hp["local"]) == set(numbers)
    leaves = jax.tree.leaves(state.hp)
    assert len(leaves) == 9 and all(leaf.dtype == dtype for leaf in leaves)
    assert all(isinstance(leaf, jax.Array) and leaf.shape == () for leaf in leaves)
    after, _ = jax.eval_shape(sim.step, problem.data(), state, KEY)
    chex.assert_trees_all_equal_shapes_and_dtypes(after, state)
