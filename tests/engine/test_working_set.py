"""Rows on disk and generated clients: the same run, bit for bit, on a working set."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos import tree
from fedjax_mos.data.generated import generated
from fedjax_mos.engine import working_set
from fedjax_mos.engine.row_store import RowStore
from fedjax_mos.engine.working_set import WorkingSet

CLIENTS, COHORT, FEATURES, ROUNDS = 40, 3, 5, 23
KEY = jax.random.key(3)
THOROUGH = pytest.mark.thorough


def loss(params, batch, key):
    logits = batch.x @ params["w"] + params["b"]
    values = jnp.logaddexp(0, -(2 * batch.y - 1) * logits)
    return fm.losses.masked_mean(values, batch.mask)


def params():
    return {"w": jnp.ones(FEATURES) / 3, "b": jnp.zeros(())}


def ragged(mass=None):
    """Clients of 1 to 6 examples."""
    rng = np.random.default_rng(0)
    size = rng.integers(1, 7, CLIENTS)
    x = rng.normal(size=(size.sum(), FEATURES)).astype("float32")
    y = (x[:, 0] > x[:, 1]).astype(int)
    parts = fm.partitions.Partition(rng.permutation(len(y)), size)
    return fm.federate(x, y, parts, mass=mass)


def simulation(algorithm="scaffold", sampler="adaptive", **options):
    return fm.simulation(
        fm.spec(getattr(fm.algorithms, algorithm), lr=0.1),
        fm.local_work(loss, fm.plans.epochs(2, batch_size=2)),
        fm.spec(getattr(fm.samplers, sampler), **options.pop("sampler_options", {})),
        cohort=COHORT,
        **options,
    )


def report(state, info):
    return {"who": info.cohort.ids, "share": info.cohort.weights}


def in_memory(sim, data, rounds=ROUNDS):
    state = sim.init(params(), data, KEY)
    return fm.run(sim, data, state, KEY, rounds, report=report, progress=False)


def started(sim, data, folder=None, examples=None):
    """A state without rows, their store and the working sets."""
    state = sim.init(params(), data, KEY, rows=1)
    rows = RowStore(state.clients, folder)
    state = state._replace(clients=rows.begin(data.size.shape[0]))
    return state, rows, WorkingSet(sim, data, state, rows, examples)


def on_disk(sim, data, folder=None, examples=None, rounds=ROUNDS, **more):
    """Frame, state and all rows of a run whose rows are on disk."""
    state, rows, working = started(sim, data, folder, examples)
    state, frame = fm.run(
        sim,
        data,
        state,
        KEY,
        rounds,
        report=report,
        progress=False,
        working=working,
        **more,
    )
    everyone = np.arange(data.size.shape[0])
    return state._replace(clients=rows.read(state.clients, everyone, CLIENTS)), frame


def assert_same(found, wanted):
    (state, frame), (other, reference) = found, wanted
    assert tree.fingerprint(state) == tree.fingerprint(other)
    for name in set(reference) - {"seconds"}:
        same = [
            np.array_equal(a, b)
            for a, b in zip(frame[name], reference[name], strict=True)
        ]
        assert all(same), name


FEEDBACK = fm.spec(fm.channels.with_feedback)


CASES = {
    "scaffold": {},
    "feddyn": {"algorithm": "feddyn", "sampler": "uniform"},
    "feedback": {"algorithm": "fedavg", "uplink": FEEDBACK},
    "md": {"sampler": "multinomial"},
    "bernoulli": {"sampler": "bernoulli", "sampler_options": {"weights": "share"}},
    "systematic": {"sampler": "systematic", "drop_nonfinite": True},
    "chunked": {"algorithm": "feddyn", "backend": fm.backends.chunked(2)},
    # Looks at the server's model: a working set for every round.
    "choice": {"sampler": "power_of_choice", "sampler_options": {"candidates": 6}},
}


FAST = ("scaffold", "feddyn", "feedback")


@pytest.mark.parametrize(
    "case", [c if c in FAST else pytest.param(c, marks=THOROUGH) for c in CASES]
)
def test_rows_on_disk_change_nothing(case):
    """A client that trains with another's row, key, share or examples."""
    sim, data = simulation(**CASES[case]), ragged()
    assert_same(on_disk(sim, data), in_memory(sim, data))


def population(clients=CLIENTS):
    """Clients of 1 to 4 examples that are made as they are drawn."""

    def generate(client, key):
        x = jax.random.normal(key, (4, FEATURES)) + client / clients
        return x, (x[:, 0] > x[:, 1]).astype(jnp.int32)

    return generated(clients, 1 + np.arange(clients) % 4, generate, seed=1)


def stored(people):
    """The same clients, with their examples in a store."""
    return people.of(people.data, np.arange(people.clients), people.clients)


@pytest.mark.parametrize(
    "sampler", ["adaptive", pytest.param("uniform", marks=THOROUGH)]
)
def test_generated_clients_are_those_of_a_store(sampler):
    """Examples of another client, or of the wrong number of them."""
    people, sim = population(), simulation(sampler=sampler)
    found = on_disk(sim, people.data, examples=people)
    assert_same(found, in_memory(sim, stored(people)))


@THOROUGH
def test_generated_clients_in_lanes():
    """A lane that trains on what another lane has drawn."""
    people, sim = population(), simulation("fedmos")
    keys = jax.random.split(KEY, 3)

    def run(data, working):
        state = jax.vmap(lambda k: sim.init(params(), data, k))(keys)
        made = WorkingSet(sim, data, state, None, people) if working else None
        return fm.run(
            sim, data, state, keys, 12, report=report, progress=False, working=made
        )

    assert_same(run(people.data, True), run(stored(people), False))


def test_rows_in_lanes_are_refused():
    """Lanes that overwrite each other's rows."""
    sim, data = simulation(), ragged()
    keys = jax.random.split(KEY, 2)
    state = jax.vmap(lambda k: sim.init(params(), data, k, rows=1))(keys)
    with pytest.raises(ValueError, match="one simulation at a time"):
        WorkingSet(sim, data, state, RowStore(state.clients))


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("everyone", "takes some clients: everyone has 40 slots"),
        ("clustered", "needs no work on the host: clustered does"),
        ("power_of_choice", "no client's examples: power_of_choice does"),
    ],
)
def test_samplers_that_need_everybody_are_refused(sampler, message):
    """A sampler that asks clients whose examples are not there."""
    people, sim = population(), simulation(sampler=sampler)
    with pytest.raises(ValueError, match=message):
        started(sim, people.data, examples=people)


@THOROUGH
def test_working_sets_are_as_small_as_rounds_allow(monkeypatch):
    """A working set of ten rounds that memory does not hold."""
    sim, data = simulation(), ragged()
    monkeypatch.setattr(working_set, "_BYTES", 200)
    _, rows, working = started(sim, data)
    assert rows.row_bytes == 24 and working.rounds == 2 and working.width == 6
    assert_same(on_disk(sim, data), in_memory(sim, data))


def test_generated_examples_are_checked():
    """A population whose clients have other numbers of examples than it says."""
    with pytest.raises(ValueError, match="4 examples each, as size says: got .*3"):
        generated(5, 4, lambda client, key: (jnp.zeros((3, 2)), jnp.zeros(3)))
    with pytest.raises(ValueError, match="size must hold one whole number per client"):
        generated(5, np.ones(4, int), lambda client, key: None)


def test_rows_are_given_away_if_asked():
    """A second copy of all rows, or a caller's state that is gone unasked."""
    sim, data = simulation(), ragged()
    state = sim.init(params(), data, KEY)
    kept, _ = fm.run(sim, data, state, KEY, 2, progress=False)
    given, _ = fm.run(sim, data, state, KEY, 2, progress=False, donate=True)
    assert tree.fingerprint(given) == tree.fingerprint(kept)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.clients))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(state.server))
