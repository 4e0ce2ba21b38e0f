"""Fields of an experiment that cannot be what they are."""

import numpy as np
import pandas as pd
import pytest

import fedjax_mos as fm

_X = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dropout_loss": "no"}, "dropout_loss must be true or false: got 'no'"),
        ({"algorithm": None}, "algorithm must be a name or an object: got None"),
        ({"sampler": 3}, "sampler must be a name or an object: got 3"),
        ({"dataset": 5}, "dataset must be a name or an object: got 5"),
        ({"dataset": pd.DataFrame()}, "fm.from_frame.*: got a DataFrame"),
        ({"dataset": (_X, _X)}, r"object: got a tuple; of arrays fm.arrays\(x, y, "),
        ({"dataset": [_X]}, r"object: got a list; of arrays fm.arrays\(x, y, "),
        ({"dataset": _X}, r"object: got a ndarray; of arrays fm.arrays\(x, y, "),
        ({"loss": (_X, 3)}, "loss must be a name or an object: got a tuple$"),
        (
            {"dataset": {"train": (_X, _X)}},
            r"mapping of names to what fm.federate\(.*: train is a tuple$",
        ),
        ({"dataset": None}, "dataset must be a name or an object: got None"),
        ({"backend": None}, "backend must be a name or an object: got None"),
        ({"importance": 5}, "importance must be a sequence: got 5"),
        ({"diagnostics": None}, "diagnostics must be a sequence: got None"),
        ({"diagnostics": "client_drift"}, "diagnostics must be a sequence"),
        ({"diagnostics": ["client_drift"] * 2}, "each once: got client_drift twice"),
        ({"metrics": 5}, "metrics must be a mapping of names to values: got 5"),
        ({"metrics": {1: max}}, "metrics must have names that are strings: got 1"),
        ({"options": {1: 2}}, "options must have names that are strings: got 1"),
        ({"options": None}, "options must be a mapping of names to values: got None"),
    ],
)
def test_wrong_kinds_are_named(fields, message):
    """A TypeError from inside, or a value that is taken for another."""
    with pytest.raises(ValueError, match=message):
        fm.Experiment(**fields)
