"""Many rounds: keys, blocks, lanes, exact bits, interrupts, and work on the host."""

import signal
from functools import cache

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm
from fedjax_mos.engine import block
from fedjax_mos.engine import run as module
from fedjax_mos.engine import visits as engine_visits
from fedjax_mos.engine.block import Block
from fedjax_mos.engine.history import History
from fedjax_mos.types import Channel, Wire
from tests import problem

METRICS = fm.losses.measures(problem.softmax_net)
EVALUATE = fm.evaluator(METRICS, 20)
WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.3, server_lr=1.0)
KEY = jax.random.key(4)


@cache
def simulate():
    """FedMoS: it has a server state besides the model."""
    hp = {"lr": 0.3, "storm": 0.2, "prox": 0.05, "server_momentum": 0.5}
    spec = fm.spec(fm.algorithms.fedmos, first_batch="step", **hp)
    return fm.simulation(spec, WORK, fm.spec(fm.samplers.adaptive), cohort=3)


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
    state, trace = jax.jit(
        lambda d, s, k: fm.rollout(
            simulate(), d, s, k, 6, evaluate=EVALUATE, stores={"train": d}, every=2
        )
    )(data, start(), KEY)
    info, values = trace.info, trace.evaluated
    expected, history = train(6)
    chex.assert_trees_all_close(state, expected, rtol=1e-5, atol=1e-7)
    assert trace.reported == ()
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
    last = EVALUATE(state, {"train": problem.data()})
    got = history["train_loss"].iloc[-1]
    np.testing.assert_allclose(got, last["train_loss"], rtol=1e-5)
    _, short = train(1, every=3)
    assert short["train_loss"].notna().tolist() == [True]


@pytest.mark.parametrize("rounds", [1, 3, 10, 22, 23, 100, 137])
@pytest.mark.parametrize("every", [1, 3, 10, 200])
def test_visits_cover_all_rounds(rounds, every):
    """Every round is in one visit, and evaluated by its number or as the last."""
    visits = [*engine_visits.visits(0, rounds, None, module.Pace(each=0.0))]
    assert [t for visit in visits for t in range(*visit)] == list(range(rounds))
    assert max(end - begin for begin, end in visits) <= 10
    ends = [
        begin + 1 + int(i)
        for begin, end in visits
        for i in engine_visits.evaluated_in(begin, end, rounds, every).nonzero()[0]
    ]
    assert ends == [*range(every, rounds + 1, every)] + [rounds] * (rounds % every > 0)


def test_the_first_visit_of_any_run_comes_at_once():
    """Billions of rounds, each noted before the first is run."""
    often = fm.types.HostUpdate(None, every=7, warm_up=3)
    for update, first in ((None, (0, 10)), (often, (0, 3))):
        visits = engine_visits.visits(0, 2**31 - 1, update, module.Pace(each=0.0))
        assert next(visits) == first


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
    sim = fm.simulation(
        AVERAGE, WORK, fm.spec(fm.samplers.uniform), cohort=3, uplink=expensive()
    )
    _, history = fm.run(sim, problem.data(), start(sim), KEY, 3, progress=False)
    assert history["bits_up"].tolist() == [3 * BITS, 6 * BITS, 9 * BITS]
    assert history["bits_up"].dtype == np.int64
    numbers = (problem.FEATURES + 1) * problem.CLASSES
    assert history["bits_down"].tolist() == [3 * 32 * numbers * t for t in (1, 2, 3)]


def test_bits_stay_exact_beyond_floats():
    """Past 2**53 a float would drop the low bits of the sum."""
    rounds, slots = 1201, 2001
    bits = np.full((rounds, slots), BITS, np.uint32)
    history = History(lanes=False, first=0)
    for part in (bits[:500], bits[500:]):
        evaluated = np.ones(len(part), bool)
        finite = np.ones(len(part), bool)
        history.add(Block({}, part, part, {}, (), finite), len(part), evaluated)
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
    monkeypatch.setattr(module.Pace, "rounds", lambda self: 10)
    state, history = train(66)
    monkeypatch.undo()
    done = 10 * visit
    assert int(state.round) == len(history) == done
    assert f"interrupted after round {done} of 66" in capsys.readouterr().err
    expected, rows = train(done)
    same_history(history, rows, rtol=1e-5)
    chex.assert_trees_all_close(state.server, expected.server, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("target", [None, 0.0])
def test_a_slow_machine_gives_the_same_run(target, monkeypatch):
    """Visits are as short as rounds are slow; what ends a run does not see them."""
    stop = None if target is None else lambda frame: len(frame) >= 12
    state, history = train(33, every=4, stop=stop)
    visits, add = [], History.add
    monkeypatch.setattr(History, "add", lambda *a: visits.append(a[2]) or add(*a))
    monkeypatch.setattr(module.Pace, "rounds", lambda self: 3)
    slow, rows = train(33, every=4, stop=stop)
    assert visits == [3, 3, 3, 1] * (len(rows) // 10) + [3] * (target is None)
    assert len(rows) == len(history) == (33 if target is None else 20)
    same_history(rows, history, rtol=0)
    chex.assert_trees_all_equal(slow, state)


def test_an_interrupt_waits_for_two_seconds():
    """Slow rounds go one at a time, quick ones in whole blocks."""
    pace = module.Pace()
    assert pace.rounds() == 1  # nothing is known yet
    with pace.measured(10):
        pass
    assert pace.rounds() >= 10
    assert module.Pace(each=0.5).rounds() == 4
    assert module.Pace(each=30.0).rounds() == 1


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
    "vmapped": fm.backends.vmapped(),
    "chunked": fm.backends.chunked(2),
    "sharded": fm.backends.sharded(),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_data_are_an_argument(backend):
    """A store baked into the program would be compiled, and copied, each time."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, problem.FEATURES)).astype(np.float32)
    y = rng.integers(problem.CLASSES, size=50_000)
    data = fm.federate(x, y, fm.partitions.iid(y, 6, seed=0))
    sim = fm.simulation(
        AVERAGE,
        WORK,
        fm.spec(fm.samplers.adaptive),
        cohort=3,
        backend=BACKENDS[backend],
    )
    state = sim.init(problem.softmax_params(), data, KEY)
    jaxpr = jax.make_jaxpr(sim.step)(data, state, KEY)
    biggest = max([0, *(np.size(c) for c in constants(jaxpr))])
    assert biggest < 100 < x.size
    flags = np.ones(block.MOST, bool)
    run = block._jitted(sim, EVALUATE, None)
    lowered = run.lower(data, {"train": data}, 2, flags, state, KEY)
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
