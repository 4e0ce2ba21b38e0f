"""What columns mean, in which unit, and whether less is better."""

import pytest

from fedjax_mos.lab.columns import falls, in_percent, label, meaning

# column: (falls, in percent, label)
COLUMNS = {
    "test_accuracy": (False, True, "test accuracy in %"),
    "test_accuracy_3": (False, True, "test accuracy 3 in %"),
    "test_top5": (False, True, "test top5 in %"),
    "train_loss": (True, False, "train loss"),
    "valid_absolute_error": (True, False, "valid absolute error"),
    "held_out_accuracy_client_mean": (
        False,
        True,
        "held out accuracy, mean over clients in %",
    ),
    "held_out_accuracy_client_std": (
        True,
        True,
        "held out accuracy, std over clients in %",
    ),
    "train_loss_client_worst_decile": (
        True,
        False,
        "train loss, worst decile over clients",
    ),
    "train_loss_client_jain": (False, False, "train loss, Jain's index over clients"),
    "train_accuracy_client_jain": (
        False,
        False,
        "train accuracy, Jain's index over clients",
    ),
    "personal_held_out_accuracy_client_q10": (
        False,
        True,
        "personal held out accuracy, 10 % over clients in %",
    ),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_units_and_directions(column):
    """Losses and spreads fall, shares are read in percent, an index is neither."""
    assert (falls(column), in_percent(column), label(column)) == COLUMNS[column]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (
            "held_out_accuracy_client_worst_decile",
            "accuracy of the server's model, on what was held out of the clients' own "
            "examples; mean over the worst tenth of the clients",
        ),
        (
            "personal_train_loss_client_q50",
            "loss of every client's own model, after a round's local steps of SGD from "
            "the server's, on the clients' training examples; the median client",
        ),
        (
            "mine_top5",
            "top5 of the server's model, on the store mine; mean over examples",
        ),
        (
            "local_fired_up",
            "fired up of the local models while they are trained, on the minibatches "
            "of this round's cohort; mean over steps, then over clients",
        ),
        ("bits_up", "bits that clients have sent so far"),
    ],
)
def test_columns_are_spelled_out(column, expected):
    """Of which model, on whose data, averaged how."""
    assert str(meaning(column)) == expected
