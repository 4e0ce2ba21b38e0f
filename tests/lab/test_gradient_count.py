"""How many gradients methods compute, against a count by hand."""

import dataclasses

import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.lab.gradient_count import Gradients, examples_per_round, gradients
from tests import problem
from tests.lab.tiny import TINY

# per step, more, over all examples
COUNTS = {
    "fedavg": (1, 0, 0),  # K
    "fedmos": (2, -2, 1),  # D + 2 (K - 1)
    "scaffold_option1": (1, 0, 1),  # K + D
    "mime": (2, 0, 1),  # 2 K + D, in two exchanges
    "fedglomo": (4, -4, 2),  # 2 D + 4 (K - 1)
}
OWN = fm.Experiment(
    dataset={"train": problem.data(), "test": problem.data()},
    algorithm="fedavg",
    sampler="ucs",
    model="logistic",
    cohort=2,
)
MEAN = np.mean(problem.SIZES)


@pytest.mark.parametrize("name", COUNTS)
def test_gradients_of_a_client(name):
    """Per local step, besides, and over all of its examples."""
    found = gradients(catalog.ALGORITHMS[name].spec())
    assert found == Gradients(*COUNTS[name])


def test_options_change_the_count():
    """FedMoS starts from a minibatch where that is chosen: 2 K - 1."""
    spec = fm.spec(fm.algorithms.fedmos, first_batch="step")
    assert gradients(spec) == Gradients(2, -1, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"steps": 3, "batch_size": 4}, 2 * 3 * 4),
        ({"batch_size": 4}, 2 * 5 * 4),  # five steps by default
        ({"epochs": 2, "batch_size": 4}, 2 * 2 * MEAN),
        ({"algorithm": "fedmos", "steps": 3, "batch_size": 4}, 2 * (2 * 2 * 4 + MEAN)),
        ({"sampler": "everyone", "steps": 3, "batch_size": 4}, 6 * 3 * 4),
        ({"sampler": "bernoulli", "steps": 3, "batch_size": 4}, 2 * 3 * 4),
    ],
    ids=["steps", "default", "epochs", "full", "everyone", "bernoulli"],
)
def test_examples_of_a_round(changes, expected):
    """Clients x gradients x examples; of unlike clients the mean size counts."""
    changes = dict(changes)
    if changes.get("sampler") == "everyone":
        changes["sampler"] = fm.samplers.everyone
    one = dataclasses.replace(OWN, **changes)
    assert examples_per_round(one) == pytest.approx(expected)


def test_what_is_held_out_is_not_trained_on():
    """Epochs are over what is left to train on."""
    one = dataclasses.replace(TINY, steps=None, epochs=3, held_out=0.5)
    left = np.mean(one.build().data.size)
    assert examples_per_round(one) == pytest.approx(2 * 3 * left)
