"""`kappa=advice`: the NLA/AA paper's threshold in an experiment's own numbers."""

import numpy as np
import pytest

import fedjax_mos as fm


def kappa(value="advice", name="kappa", **fields):
    fields = {"algorithm": "fednlaa", "clients": 100, "cohort": 50} | fields
    return (
        fm.Experiment(options={name: value}, **fields).parts["uplink"].spec.hp["kappa"]
    )


def advice(m, S, alpha=1.0):
    return np.sqrt(alpha * np.log(m)) / m / (alpha * S)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, advice(100, 50)),
        ({"value": "advice:0.01"}, advice(100, 50, 0.01)),
        ({"name": "uplink.kappa", "cohort": 10}, advice(100, 10)),
        ({"clients": None, "cohort": 20}, advice(100, 20)),
        ({"sampler": "everyone", "cohort": 10}, advice(100, 100)),  # S_t: all
        ({"value": 0.3}, 0.3),
    ],
)
def test_the_advice_becomes_a_number(fields, expected):
    """C / (alpha |S_t|) with C = sqrt(alpha log m) / m."""
    np.testing.assert_allclose(kappa(**fields), expected)


def test_advice_without_clients_is_refused():
    """Where only the data know how many there are; and words that are no number."""
    with pytest.raises(ValueError, match="clients must be given for kappa=advice"):
        kappa(clients=None, dataset="synthetic", cohort=5)
    with pytest.raises(ValueError, match="kappa must be a number, advice or advice:A"):
        kappa("advice:much")
    with pytest.raises(ValueError, match="alpha must be positive: got 0"):
        kappa("advice:0")
