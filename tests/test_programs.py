"""Programs on disk: found without a trace, and never taken for others."""

import dataclasses

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos import programs
from fedjax_mos.engine import block
from fedjax_mos.lab import assemble, catalog, initial, population
from fedjax_mos.lab.structure import identity
from tests.lab.test_programs import counted

SMALL = fm.Experiment(
    algorithm="fedavg", sampler="ucs", model="logistic", clients=10, cohort=3, rounds=3
)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """Programs are kept, in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setattr(programs, "keeps_programs", lambda: True)
    return tmp_path


def fresh(experiment=SMALL, seeds=None):
    """A run as a new process would do it."""
    block._PROGRAMS.things.clear()
    assemble._FUNCTIONS.things.clear()
    initial._MODELS.things.clear()
    return experiment.run(seeds, progress=False)


def files():
    folder = programs.folder()
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("seeds", [None, 2])
def test_a_kept_program_is_not_traced_and_gives_the_same(seeds):
    """The second process loads what the first one compiled, bit for bit."""
    first = fresh(seeds=seeds)
    assert len(files()) == 3  # initial models, initial states, a block of rounds
    with counted() as seen:
        again = fresh(dataclasses.replace(SMALL, rounds=5), seeds)
    assert not [event for event in seen if "backend_compile" in event]
    assert len(seen) <= 4  # the shapes of the model's parameters, outputs and losses
    early = again.frame[again.frame["round"] <= 3].reset_index(drop=True)
    assert early["train_loss"].equals(first.frame["train_loss"])
    assert len(files()) == 3


def test_a_damaged_file_is_made_again():
    """A file cut short or with a wrong byte is never run."""
    first = fresh()
    for path in files():
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert not any(programs._load(path) for path in files())
    again = fresh()
    np.testing.assert_array_equal(first.frame.train_loss, again.frame.train_loss)
    assert all(programs._load(path) for path in files())


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["_sources", "_machine"])
def test_other_code_or_another_machine_finds_nothing(what, monkeypatch):
    """A program is that of the code and the machine that it was compiled for."""
    fresh()
    monkeypatch.setattr(programs, what, lambda: "another")
    fresh()
    assert len(files()) == 6


@pytest.mark.thorough
def test_configuration_of_jax_matters(monkeypatch):
    """A setting of JAX that may change numbers makes another program."""
    fresh()
    before = jax.config.jax_default_matmul_precision
    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        fresh()
    finally:
        jax.config.update("jax_default_matmul_precision", before)
    assert len(files()) == 6


@pytest.mark.thorough
def test_programs_of_own_objects_are_not_kept():
    """Nobody can tell from outside what an object does."""
    fresh(dataclasses.replace(SMALL, metrics={"one": lambda out, y: y == 1}))
    assert not files()


@pytest.mark.thorough
def test_own_evaluation_of_a_named_simulation_is_not_kept():
    """A block is that of its evaluation too."""
    made = SMALL.build()
    state, key = made.start(jax.random.key(0))
    fm.run(made.sim, made.data, state, key, 1, progress=False)
    before = len(files())
    own = fm.evaluator(lambda params, batch: {"two": 0 * batch.y + 2})
    fm.run(
        made.sim,
        made.data,
        state,
        key,
        1,
        evaluate=own,
        stores=made.stores,
        progress=False,
    )
    assert len(files()) == before


@pytest.mark.thorough
def test_the_least_recently_used_go_first(monkeypatch):
    """The folder stays within its bound."""
    fresh()
    size = sum(path.stat().st_size for path in files())
    monkeypatch.setattr(programs, "CACHE_SIZE", size + 100)
    old = files()
    fresh(dataclasses.replace(SMALL, cohort=4))
    assert sum(path.stat().st_size for path in files()) <= size + 100
    assert not set(old) <= set(files())


@pytest.mark.thorough
def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path):
    """What cannot be kept is compiled."""
    (tmp_path / "fedjax_mos").write_text("a file where the folder should be")
    fresh()
    assert len(fresh().frame) == 3


@pytest.mark.parametrize("name", catalog.ALGORITHMS)
def test_an_identity_holds_in_every_process(name):
    """It names no address of this process; where objects are inside there is none."""
    text = identity(fm.Experiment(algorithm=name))
    assert text is None or " at 0x" not in text
    assert (text is None) == (name == "fedopt")


def test_identities_differ_where_structures_do():
    """Static options, sizes and fields are part of it; numbers and seeds are not."""
    changed = [
        {"batch_size": 4},
        {"cohort": 4},
        {"algorithm": "fedprox"},
        {"options": {"micro_batch": 16}},
        {"options": {"lr": fm.Schedule(np.ones(3))}},
        {"uplink": "compressed"},
        {"model": "mlp"},
    ]
    texts = [identity(dataclasses.replace(SMALL, **c)) for c in changed]
    assert len({identity(SMALL), *texts}) == 1 + len(changed)
    same = [{"seed": 3}, {"rounds": 9}, {"options": {"lr": 0.7}}, {"eval_every": 2}]
    assert {identity(dataclasses.replace(SMALL, **c)) for c in same} == {
        identity(SMALL)
    }


def test_settings_of_jax_count_within_a_process():
    """Also those of a context: a program that was traced otherwise is not used."""
    made = programs.Program(jax.jit(lambda x: x + 1), "plus one")
    x = np.ones(3, np.float32)
    made(x)
    with jax.default_matmul_precision("highest"):
        made(x)
        made(x)
    assert len(files()) == 2


def test_moments_tell_inputs_apart():
    """What is subtracted from which input is part of a program."""
    x = {"a": np.zeros((8, 2), np.float32), "b": np.zeros((8, 2), np.float32)}
    y = np.arange(8) % 2
    tokens = []
    for mean in ({"a": 0.5, "b": None}, {"a": None, "b": 0.5}):
        data = fm.arrays(x, y, x, y)._replace(mean=mean)
        one = dataclasses.replace(SMALL, dataset=data, clients=2, cohort=2)
        people = population.population_of(one)
        tokens.append(people.token)
    assert tokens[0] != tokens[1]


def test_jax_says_where_programs_are(monkeypatch, tmp_path):
    """A cache that was moved to a larger disk, half of which stays behind."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "large"))
    assert programs.folder() == tmp_path / "large" / "fedjax_mos"


def test_a_folder_that_cannot_be_written_is_said_once(monkeypatch, tmp_path, capsys):
    """Programs that are compiled anew in every process, and nobody knows why."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "file"))
    program = jax.jit(lambda x: x + 1).lower(1.0).compile()
    for name in "ab":
        programs._save(programs.folder() / name, program)
    said = capsys.readouterr().err
    assert said.count("no program is kept") == 1 and str(tmp_path) in said
