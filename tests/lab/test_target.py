"""Programs for platforms that this machine does not have."""

import re

import jax
import numpy as np
import pytest
from jax import export

import fedjax_mos as fm
from fedjax_mos.lab.folders import config
from tests.docs import printed

PRODUCT = r"stablehlo\.(convolution|dot_general)"


def images(count=40):
    rng = np.random.default_rng(0)
    x = rng.random((count, 16, 16, 1), np.float32)
    return fm.arrays(x, rng.integers(0, 3, count), x[:8], rng.integers(0, 3, 8))


def experiment(**fields):
    given = {"dataset": images(), "model": fm.models.cnn(3), "clients": 4, "cohort": 2}
    return fm.Experiment(**given | {"rounds": 1, "steps": 1, "batch_size": 4} | fields)


def exported(platform, **fields):
    made = experiment(**fields).build(platform=platform)
    state, key = jax.eval_shape(made.start, jax.random.key(0))
    block, args = made.block(state, key)
    return export.export(block, platforms=[platform])(*args)


@pytest.fixture
def nobody_asks(monkeypatch):
    """The process's own platform is none."""

    def ask():
        raise AssertionError("the process was asked for its platform")

    monkeypatch.setattr(jax, "default_backend", ask)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_a_block_is_exported_for_any_platform(platform, nobody_asks):
    """A program of this machine's form sent to another one."""
    program = exported(platform)
    assert program.platforms == (platform,)
    native = "stablehlo.convolution" in program.mlir_module()
    assert native == (platform != "cpu")


def test_few_small_steps_are_unrolled_on_a_gpu(nobody_asks):
    """Kernels started by a loop that takes longer than its work."""

    def loops(platform, **fields):
        given = {"model": fm.models.logistic(3), "cohort": 2} | fields
        return exported(platform, **given).mlir_module().count("stablehlo.while")

    assert loops("cuda", steps=3) == loops("cuda", steps=30) - 1
    assert loops("tpu", steps=3) == loops("tpu", steps=30)


def test_precision_is_that_of_all_products(nobody_asks):
    """Gradients, or the evaluation, that are rounded all the same."""
    for precision in ("HIGH", "HIGHEST"):
        text = exported("tpu", precision=precision.lower()).mlir_module()
        lines = [n for n in text.splitlines() if re.search(PRODUCT, n)]
        said = [re.findall(r"DEFAULT|HIGHEST|HIGH", n) for n in lines]
        own = [n for n in said if n == [precision] * 2]
        # The mean of the messages is exact whatever the model's products are.
        assert all(n == ["HIGHEST"] * 2 for n in said if n not in own)
        assert len(own) >= 4 + 7 + 4  # layers forward, backward and evaluated


def test_the_guide_s_program_runs():
    """A reader copies it first of all."""
    (block,) = printed.blocks("docs/accelerators.md")
    assert printed.run(block, "accelerators")["program"].platforms == ("tpu",)


def test_precision_is_recorded():
    """A result that nobody can repeat because its rounding is not known."""
    fields = {"rounds": 1, "clients": 4, "cohort": 2}
    one = fm.Experiment(**fields, precision="high")
    stored = config(one, "run")
    assert stored["precision"] == stored["experiment"]["precision"] == "high"
    one = fm.Experiment(**fields)
    assert config(one, "run")["precision"] == "default"
    with jax.default_matmul_precision("tensorfloat32"):
        assert config(one, "run")["precision"] == "tensorfloat32"


def test_platforms_and_precisions_share_no_functions():
    """A program for one platform given to another."""
    one = experiment()
    builds = [one.build(), one.build(platform="tpu"), one.build(platform="cuda")]
    builds.append(experiment(dataset=one.dataset, precision="high").build())
    assert len({made.sim for made in builds}) == 4
    assert one.build(platform="tpu").sim == builds[1].sim
    named = fm.Experiment(clients=4, cohort=2)
    texts = [named.build(platform=p).sim.identity for p in ("cpu", "tpu")]
    assert texts[0] != texts[1]
