"""Runs in a few numbers, on frames that a reader can check by hand."""

import numpy as np
import pandas as pd
import pytest

from fedjax_mos.lab import summaries

NAN = float("nan")
# It crosses 0.5 in round 2, falls below, and crosses again.
ACCURACY = [0.2, 0.55, 0.4, 0.8, NAN, 0.7]
LOSS = [2.0, 1.0, 1.5, 0.5, NAN, 0.6]


def run(accuracy=ACCURACY, loss=LOSS, **more):
    rounds = np.arange(1, len(accuracy) + 1)
    return pd.DataFrame(
        {
            "round": rounds,
            "test_accuracy": accuracy,
            "train_loss": loss,
            "bits_up": 10 * rounds,
            "bits_down": 100 * rounds,
            "seconds": 5.0 + 0.5 * rounds,
            **more,
        }
    )


@pytest.fixture
def seeds():
    """Three seeds, from 4 on; the last one never gets far."""
    runs = [ACCURACY, ACCURACY[::-1], [0.1, 0.2, 0.3, 0.1, 0.2, 0.3]]
    frames = [run(a).assign(seed=4 + s) for s, a in enumerate(runs)]
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize(
    ("target", "metric", "expected"),
    [
        (0.5, "test_accuracy", 2),  # the first raw crossing counts, though it falls
        (0.2, "test_accuracy", 1),
        (0.8, "test_accuracy", 4),
        (0.81, "test_accuracy", NAN),
        (1.0, "train_loss", 2),
        (0.5, "train_loss", 4),
        (0.4, "train_loss", NAN),
    ],
)
def test_rounds_to_a_target(target, metric, expected):
    """The first round at or beyond the target, unsmoothed; NaN if there is none."""
    found = summaries.rounds_to_target(run(), target, metric)
    np.testing.assert_equal(found, expected)


def test_rounds_are_those_of_the_frame():
    """Rounds that were not evaluated do not shift the count."""
    sparse = run([NAN, NAN, 0.3, NAN, NAN, 0.9])
    assert summaries.rounds_to_target(sparse, 0.9) == 6
    assert summaries.rounds_to_target(sparse, 0.1) == 3


def test_the_value_after_a_round():
    """NaN where it was not evaluated, or not run."""
    assert summaries.at_round(run(), 4, "test_accuracy") == 0.8
    assert np.isnan(summaries.at_round(run(), 5, "test_accuracy"))
    assert np.isnan(summaries.at_round(run(), 7, "test_accuracy"))


@pytest.mark.parametrize("window", [1, 2, 3, 10])
def test_moving_averages_are_plain_loops(window):
    """Means over the latest evaluations; shares deviate in squared points."""
    values = [v for v in ACCURACY if not np.isnan(v)]
    means = [np.mean(values[max(0, i + 1 - window) : i + 1]) for i in range(5)]
    found = summaries.smoothed(run(), "test_accuracy", window)
    assert found.index.tolist() == [1, 2, 3, 4, 6]
    np.testing.assert_allclose(found, means)
    away = sum((100 * v - 100 * m) ** 2 for v, m in zip(values, means, strict=True))
    got = summaries.deviation(run(), "test_accuracy", window)
    np.testing.assert_allclose(got, away / 5, atol=1e-9)


def test_the_deviation_of_a_loss_is_in_its_own_unit():
    """Only shares are counted in percentage points."""
    values = np.array([v for v in LOSS if not np.isnan(v)])
    means = [values[0], *((values[1:] + values[:-1]) / 2)]
    expected = ((values - means) ** 2).mean()
    got = summaries.deviation(run(), "train_loss", 2)
    np.testing.assert_allclose(got, expected)


def test_a_window_is_positive():
    """The message names the number."""
    with pytest.raises(ValueError, match="window must be at least 1: got 0"):
        summaries.smoothed(run(), "train_loss", 0)


def test_targets_by_seed(seeds):
    """One row per target and seed: the round, or NaN with the T of "T+"."""
    found = summaries.targets(seeds, [0.5, 0.75])
    assert found["seed"].tolist() == [4, 5, 6] * 2
    assert found["target"].tolist() == [0.5] * 3 + [0.75] * 3
    np.testing.assert_equal(found["reached"].tolist(), [2, 1, NAN, 4, 3, NAN])
    assert (found["rounds"] == 6).all() and (found["metric"] == "test_accuracy").all()
    alone = summaries.targets(run(), [1.0], "train_loss")
    assert alone[["seed", "reached"]].to_numpy().tolist() == [[0, 2]]


def test_final_values_are_those_after_the_last_round(seeds):
    """By seed; of a run that diverged none, rather than one from before."""
    found = summaries.final(seeds, "test_accuracy")
    assert found.to_dict() == {4: 0.7, 5: 0.2, 6: 0.3}
    lost = run([0.1, 0.2, 0.1], [1.0, 0.5, NAN]).assign(diverged=[False, False, True])
    assert np.isnan(summaries.final(lost, "train_loss")[0])
    assert np.isnan(summaries.final(lost, "test_accuracy")[0])
    assert summaries.diverged_at(lost) == 3 and summaries.diverged_at(seeds) is None


def test_an_unknown_metric_is_refused(seeds):
    """The message lists what measures a model, not what counts something."""
    message = "^metric must be one of test_accuracy, train_loss: got 'acc'$"
    for metric in ("acc", "bits_up", "seed", "round"):
        with pytest.raises(ValueError, match=message.replace("acc'", f"{metric}'")):
            summaries.check_metric(seeds, metric)
    assert summaries.check_metric(seeds, None) == "test_accuracy"
    assert summaries.check_metric(seeds, "train_loss") == "train_loss"


@pytest.mark.parametrize("target", [0.0, -0.1, 1.01, 90.0])
def test_a_share_has_targets_up_to_one(target):
    """90 for 0.9 is refused, of a loss it is not."""
    with pytest.raises(ValueError, match=r"in \(0, 1\]: got"):
        summaries.check_target(target, "test_accuracy")
    assert summaries.check_target(target, "train_loss") == target


@pytest.mark.parametrize("target", [np.nan, np.inf])
def test_targets_are_finite(target):
    """A target that no loss ever has, and every table shows as not reached."""
    with pytest.raises(ValueError, match="target must be a finite number: got"):
        summaries.check_target(target, "train_loss")


def test_the_main_metric_is_the_nearest_to_test_accuracy():
    """Accuracies before losses, the test set before the others."""
    for names, expected in [
        (["train_loss", "test_loss", "train_accuracy"], "train_accuracy"),
        (["train_loss", "test_loss"], "test_loss"),
        (["valid_accuracy", "test_accuracy"], "test_accuracy"),
        (["own_error"], "local_loss"),
    ]:
        frame = pd.DataFrame({name: [0.0] for name in ["round", *names]})
        assert summaries.main_metric(frame) == expected


def test_the_first_visit_does_not_count_as_speed():
    """Seconds per round are a median without the rounds that compile."""
    assert summaries.seconds_per_round(run()) == pytest.approx(0.5)
    together = run().assign(seconds=np.arange(1, 7) * 0.25)
    assert summaries.seconds_per_round(together) == pytest.approx(0.25)


def test_a_summary_is_of_one_run():
    """Final, best, the round of the target with its bits, and divergence."""
    found = summaries.summary(run(), 0.5)
    assert (found["final"], found["best"], found["rounds"]) == (0.7, 0.8, 6)
    assert (found["rounds_to_target"], found["bits_to_target"]) == (2, 220)
    assert (found["bits_up"], found["bits_down"]) == (60, 600)
    assert found["final_train_loss"] == 0.6 and found["diverged_at"] is None
    never = summaries.summary(run(loss=[2.0, np.inf, 1, 1, 1, 1]), 0.9)
    assert never["rounds_to_target"] is None and never["bits_to_target"] is None
    lost = run().assign(diverged=[False] * 3 + [True] * 3)
    assert summaries.summary(lost, 0.9)["diverged_at"] == 4


def test_a_model_that_is_no_number_reaches_nothing():
    """A target below chance, reached by a model of NaN; its accuracy as the best."""
    frame = pd.DataFrame(
        {
            "round": [1, 2, 3],
            "test_accuracy": [0.05, 0.11, 0.11],
            "diverged": [False, True, True],
            "bits_up": [1, 2, 3],
            "bits_down": [1, 2, 3],
            "seconds": [0.1, 0.2, 0.3],
        }
    )
    assert np.isnan(summaries.rounds_to_target(frame, 0.1))
    found = summaries.summary(frame, 0.1)
    assert found["rounds_to_target"] is None and found["best"] == 0.05
