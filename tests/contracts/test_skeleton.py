"""The skeleton that new algorithms are copied from runs, and is FedAvg."""

import importlib.util

import chex
import jax
import pytest

import fedjax_mos as fm
from fedjax_mos.components import cited
from tests import problem
from tests.contracts.harness import COHORT


@pytest.fixture(scope="module")
def skeleton(pytestconfig):
    path = pytestconfig.rootpath / "docs" / "skeletons" / "algorithm.py"
    module_spec = importlib.util.spec_from_file_location("skeleton", path)
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def test_the_skeleton_is_an_algorithm(skeleton):
    """What the guide tells people to copy trains as FedAvg does, bit for bit."""
    ends = []
    for made in (fm.spec(skeleton.name, lr=0.3), fm.spec(fm.algorithms.fedavg, lr=0.3)):
        sampler = fm.spec(fm.samplers.adaptive)
        sim = fm.simulation(made, problem.work(), sampler, cohort=COHORT)
        data, key = problem.data(), jax.random.key(0)
        state = sim.init(problem.tanh_params(), data, key)
        state, trace = fm.rollout(sim, data, state, key, 3)
        ends.append((state.server.params, trace.info.metrics, trace.info.bits_up))
    chex.assert_trees_all_close(*ends, rtol=1e-6)


def test_the_skeleton_describes_itself(skeleton):
    """Its option has a default and a range, and it says what to cite."""
    assert fm.spec(skeleton.name).hp == {"lr": 0.1}
    assert cited(skeleton.name) == ("key",)
    with pytest.raises(ValueError, match=r"lr must lie in \(0, inf\)"):
        fm.spec(skeleton.name, lr=0.0)
    experiment = fm.Experiment(algorithm=skeleton.name, options={"lr": 0.2})
    assert experiment.parts["algorithm"].spec.hp == {"lr": 0.2}
    assert experiment.title == "name/acs"
