"""Which layout is chosen, lanes over devices, and what the machine lends."""

import os
import subprocess
import sys
from functools import cache, partial

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.backends import auto as layout
from tests import problem, programs

AVERAGE = fm.spec(fm.algorithms.fedavg, lr=0.1, server_lr=1.0)
WORK = fm.local_work(
    fm.losses.mean_loss(problem.softmax_net), fm.plans.with_replacement(2, 3)
)
LANES = {
    "chunked": fm.backends.chunked(2),
    "sharded": fm.backends.sharded(),
    "sharded chunks": fm.backends.sharded(inner=fm.backends.chunked(1)),
    "spread": fm.backends.spread(),
    "spread chunks": fm.backends.spread(inner=fm.backends.chunked(2)),
}


def weights(*shapes):
    return [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]


SMALL = weights((64, 64), (64, 10))
LARGE = weights((784, 200), (200, 10))
IMAGES = weights((5, 5, 1, 32), (1024, 512))


@pytest.mark.parametrize(
    ("devices", "params", "cohort", "lanes", "expected"),
    [
        (1, SMALL, 10, 1, ("vmapped", None)),
        (1, LARGE, 50, 1, ("chunked", 3)),
        (1, weights((784, 10)), 100, 1, ("chunked", 50)),  # 66 fit
        (1, IMAGES, 25, 1, ("chunked", 1)),
        (2, SMALL, 10, 1, ("vmapped", None)),  # too tiny to be split
        (2, SMALL, 100, 1, ("sharded", None)),
        (2, LARGE, 50, 1, ("sharded", 3)),
        (2, IMAGES, 25, 1, ("sharded", 1)),
        (2, SMALL, 10, 4, ("spread", None)),
        (2, IMAGES, 25, 4, ("spread", 1)),
        (2, IMAGES, 25, 11, ("spread", 1)),
        (2, IMAGES, 25, 9, ("sharded", 1)),  # a copy for less than ten
        (2, weights((784, 10)), 100, 5, ("sharded", 50)),  # 250 do not fit
        (1, SMALL, 10, 5, ("vmapped", None)),
        (1, SMALL, 10, 20, ("chunked", 10)),  # 200 do not fit
        (2, SMALL, 10, 5, ("spread", None)),  # too tiny to be split otherwise
        (4, IMAGES, 25, 5, ("sharded", 1)),
        (8, IMAGES, 25, 5, ("sharded", 1)),  # too few simulations for all devices
    ],
)
def test_choice(devices, params, cohort, lanes, expected, monkeypatch):
    """Idle cores, or a working set that leaves the cache."""
    monkeypatch.setattr(jax, "device_count", lambda: devices)
    assert layout.choose(params, cohort, lanes, 1.0, "cpu") == expected


@pytest.mark.parametrize(
    ("devices", "cohort", "lanes", "expected"),
    [
        (1, 25, 4, "vmapped"),
        (8, 25, 1, "sharded"),
        (8, 25, 9, "spread"),
        (8, 25, 5, "mesh:4x2"),  # two of the lanes in one group
        (8, 4, 1, "vmapped"),  # fewer slots than devices
        (8, 4, 2, "mesh:2x4"),
    ],
)
def test_accelerators_do_everything_at_once(
    devices, cohort, lanes, expected, monkeypatch
):
    """Rules for caches of a CPU that make an accelerator wait, or idle ones."""
    monkeypatch.setattr(layout, "devices_of", lambda platform: devices)
    assert layout.choose(IMAGES, cohort, lanes, 1.0, "gpu") == (expected, None)


def test_a_mesh_has_a_name():
    """A mesh of other devices than there are, which would fail much later."""
    made = layout.backend_named("mesh:2x1", SMALL)
    assert made.name.startswith("simulations over 2 groups of devices")
    with pytest.raises(ValueError, match="all 2 devices: 3x2 are 6"):
        layout.backend_named("mesh:3x2", SMALL)
    for wrong in ("mesh", "mesh:2", "mesh:0x2", "mesh:2x", "mesh:2x2x2"):
        with pytest.raises(ValueError, match="mesh:RUNSxCLIENTS"):
            layout.backend_parts(wrong)


def test_programs_for_other_machines_are_for_one_device():
    """Two CPU devices that split the clients of a TPU's program."""
    name = fm.Experiment().build(platform="tpu").sim.backend.name
    assert name == "vmapped"


def test_accelerators_do_as_much_at_once_as_fits():
    """A large cohort that ends a run because its models do not fit the device."""
    each = 4 * sum(leaf.size for leaf in jax.tree.leaves(IMAGES))
    for memory, expected in ((8 * 25 * each, None), (8 * 24 * each, 13), (1, 1)):
        found = layout.choose(IMAGES, 25, 1, 1.0, "gpu", memory)
        assert found == (("chunked" if expected else "vmapped"), expected)
    # Gradients count besides: as large as four trees, half as many clients fit.
    found = layout.choose(IMAGES, 25, 1, 1.0, "gpu", 8 * 24 * each, 4 * each)
    assert found == ("chunked", 9)


def test_an_accelerator_s_compiler_says_what_a_gradient_needs(monkeypatch):
    """Activations that nobody counted: small kernels on large images."""
    pooled = partial(jnp.mean, axis=(1, 2))
    model = nn.Sequential([fm.models.Conv(8, 5), nn.relu, pooled, nn.Dense(3)])
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 24, 24, 1)), np.arange(60) % 3
    data = fm.arrays(x.astype("float32"), y, x[:6].astype("float32"), y[:6])
    monkeypatch.setattr(layout, "device_memory", lambda platform: 10 * 2**20)
    monkeypatch.setattr(layout, "devices_of", lambda platform: 1)

    def slots(**fields):
        given = {"dataset": data, "model": model, "clients": 20, "cohort": 20}
        made = fm.Experiment(**given, partition="iid", **fields).build(platform="gpu")
        return layout.backend_parts(made.sim.backend.name)[1] or 20

    few, many = slots(batch_size=2), slots(batch_size=64)
    assert 1 <= many < few / 4

    def full(lowered, **options):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")

    monkeypatch.setattr(jax.stages.Lowered, "compile", full)
    assert slots(batch_size=3) == 1


def test_very_ragged_clients_go_one_at_a_time(monkeypatch):
    """A cohort that waits for the idle steps of nearly all of its clients."""
    monkeypatch.setattr(jax, "device_count", lambda: 1)
    assert layout.choose(SMALL, 10, 1, 2.9, "cpu") == ("vmapped", None)
    assert layout.choose(SMALL, 10, 1, 3.1, "cpu") == ("chunked", 1)
    sizes = {"clients": 20, "partition": "dirichlet", "epochs": 1, "batch_size": 5}
    for alpha, name in ((100.0, "vmapped"), (0.05, "chunked:1")):
        given = fm.Experiment(cohort=4, **sizes, options={"partition.alpha": alpha})
        assert given.build().sim.backend.name == name, alpha


def accuracy(params, batch):
    logits = problem.softmax_net(params, batch.x, None)
    return {"accuracy": logits.argmax(axis=-1) == batch.y}


def trained(backend, lanes, rounds=3):
    sim = fm.simulation(
        AVERAGE, WORK, fm.spec(fm.samplers.adaptive), cohort=3, backend=backend
    )
    data = problem.data()
    keys = jax.random.split(jax.random.key(0), lanes)
    start = jax.vmap(lambda k: sim.init(problem.softmax_params(), data, k))
    measured = {"evaluate": fm.evaluator(accuracy, 4, backend), "stores": {"all": data}}
    return fm.run(sim, data, start(keys), keys, rounds, progress=False, **measured)


@cache
def expected(lanes):
    return trained(fm.backends.vmapped(), lanes)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("backend", "lanes"),  # the devices are two
    [
        ("chunked", 3),
        ("sharded", 3),
        ("sharded chunks", 3),
        ("spread", 4),
        ("spread", 3),
        ("spread chunks", 4),
    ],
)
def test_lanes_do_not_depend_on_the_layout(backend, lanes):
    """A simulation that changes with its neighbours, or is dropped."""
    state, history = trained(LANES[backend], lanes)
    other, table = expected(lanes)
    chex.assert_trees_all_close(state.server, other.server, rtol=1e-5)
    assert (history["lane"] == table["lane"]).all()
    for column in ("local_loss", "all_accuracy"):
        np.testing.assert_allclose(history[column], table[column], rtol=1e-5)


@pytest.mark.parametrize(
    ("backend", "lanes"), [("spread", 3), ("spread", 4), ("sharded chunks", 3)]
)
def test_blocks_of_lanes_are_one_program(backend, lanes):
    """A state that comes back with another type or elsewhere: it compiles again."""
    programs.forget()
    trained(LANES[backend], lanes, rounds=22)  # three blocks
    assert programs.compiled() == 1


@pytest.mark.parametrize("outer", [fm.backends.sharded, fm.backends.spread])
def test_lanes_go_as_inside(outer):
    """Side by side where the chunks were to keep them in the cache."""
    for inner, loops in (
        (fm.backends.chunked(1), True),
        (fm.backends.vmapped(), False),
    ):
        many = partial(outer(inner=inner).many, jnp.add, 1.0)
        assert ("scan" in str(jax.make_jaxpr(many)(jnp.zeros(4)))) == loops


def test_devices_of_a_cpu_share_the_data():
    """A copy of the data set for every core."""
    data = problem.data()
    placed, _ = fm.backends.sharded().place(data, jnp.zeros(2), False)
    shards = placed.x.addressable_shards
    assert len(shards) == 2
    assert len({shard.data.unsafe_buffer_pointer() for shard in shards}) == 1


def python(program, **more):
    """What a fresh interpreter prints."""
    env = os.environ | {"JAX_PLATFORMS": "cpu"} | more
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_all_cores_are_used():
    """Cores left idle, or a late call that is silently ignored."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    out, _ = python("import fedjax_mos as fm; print(fm.use_all_cores())")
    assert int(out) == (cores or os.cpu_count())
    out, said = python(
        "import jax, fedjax_mos as fm; jax.devices(); print(fm.use_all_cores())"
    )
    assert int(out) == 1
    assert cores == 1 or "already started with 1 device" in said


def test_a_flag_that_was_given_stays():
    """A user's own choice overruled, or XLA's helpers left on."""
    program = "import os, fedjax_mos as fm; fm.use_all_cores(); "
    given = "--xla_cpu_multi_thread_eigen=true"
    out, _ = python(program + "print(os.environ['XLA_FLAGS'])", XLA_FLAGS=given)
    assert out.split() == [
        given,
        "--xla_cpu_enable_concurrency_optimized_scheduler=false",
        "--xla_cpu_collective_call_terminate_timeout_seconds=600",
    ]
