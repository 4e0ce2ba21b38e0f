"""Every kind of picture: what its axes, legend and caption say, and what it draws."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

import fedjax_mos as fm
from fedjax_mos.lab import pictures
from fedjax_mos.lab.pictures.style import line
from tests.lab import shown
from tests.lab.tiny import TINY

PNG, SVG, PDF = b"\x89PNG", b"<?xml", b"%PDF"


@pytest.fixture(scope="module")
def both():
    return shown.comparison()


def said(figure):
    """The caption, on one line."""
    return figure.get_supxlabel().replace("\n", " ")


def legend(axis):
    return [text.get_text() for text in axis.get_legend().get_texts()]


def labels(axis):
    return axis.get_xlabel(), axis.get_ylabel()


def drawn(figure):
    """Draw it, so that what fails only then fails here."""
    figure.canvas.draw()
    return figure


def made(values, metric="test_accuracy", loss=None):
    """A frame of runs: values by seed and round."""
    rows = [
        {
            "seed": seed,
            "round": t + 1,
            "train_loss": 1.0 if loss is None else loss[t],
            metric: value,
            "bits_up": 1e6 * (t + 1),
            "bits_down": 2e6 * (t + 1),
            "seconds": 0.1 * (t + 1),
        }
        for seed, run in enumerate(values)
        for t, value in enumerate(run)
    ]
    return pd.DataFrame(rows)


# ---- curves --------------------------------------------------------------------------


def test_curves(both):
    """Loss and accuracy by round: means over seeds, and what the bands are."""
    figure = drawn(both.curves())
    loss, accuracy = figure.axes
    assert labels(loss) == ("round", "train loss")
    assert labels(accuracy) == ("round", "test accuracy in %")
    assert legend(loss) == ["fast", "still"]
    for number, result in enumerate(both.members.values()):
        mean = result.frame.groupby("round")["test_accuracy"].mean()
        one = accuracy.lines[number]
        np.testing.assert_allclose(one.get_ydata(), mean)
        assert one.get_xdata().tolist() == [1, 2, 3]
    ticks = [accuracy.yaxis.get_major_formatter()(v) for v in (0.1, 0.25)]
    assert ticks == ["10", "25"]  # the unit stands on the axis
    text = said(figure)
    assert "bands: ± sample standard deviation over seeds." in text
    assert len(accuracy.collections) == 2


@pytest.mark.parametrize(
    ("band", "name"), [("sem", "standard error"), ("ci95", "95 % t-interval")]
)
def test_bands(both, band, name):
    """The caption names the band, the band has its width."""
    figure = drawn(both.curves(["test_loss"], band=band))
    assert name in said(figure)
    frame = both.members["fast"].frame.pivot(
        index="round", columns="seed", values="test_loss"
    )
    sem = frame.std(axis=1, ddof=1) / 2**0.5
    half = sem * {"sem": 1, "ci95": 12.7062047}[band]  # Student's t, one degree
    low, high = frame.mean(axis=1) - half, frame.mean(axis=1) + half
    (path,) = figure.axes[0].collections[0].get_paths()
    at_last = path.vertices[path.vertices[:, 0] == 3][:, 1]
    assert at_last.max() == pytest.approx(high[3])
    if low.min() > 0:
        assert at_last.min() == pytest.approx(low[3])
    with pytest.raises(ValueError, match="spread must be one of std, sem, ci95"):
        both.curves(band="iqr")


def test_one_seed_has_no_band():
    """Nothing is drawn or said of a spread that is not known."""
    figure = drawn(pictures.curves({"a": made([[0.1, 0.2]])}))
    assert said(figure) == "One seed."
    assert not figure.axes[1].collections


@pytest.mark.parametrize("x", ["bits", "gradients", "seconds"])
def test_curves_against_costs(both, x):
    """Costs so far, with their unit."""
    figure = drawn(both.curves(["test_accuracy"], x=x))
    (axis,) = figure.axes
    frame = both.members["fast"].frame
    words, expected = {
        "bits": (
            "Mbit up + down, so far",
            (frame["bits_up"] + frame["bits_down"]) / 1e6,
        ),
        # Two clients, one step of four examples.
        "gradients": (
            "gradients of single examples so far",
            8 * frame["round"],
        ),
        "seconds": ("seconds so far", frame["seconds"]),
    }[x]
    assert axis.get_xlabel() == words
    wanted = expected.groupby(frame["round"]).mean()
    np.testing.assert_allclose(axis.lines[0].get_xdata(), wanted)


def test_a_loss_over_orders_has_a_logarithm():
    """From ten times on; an accuracy never."""
    for most, scale in ((9.0, "linear"), (11.0, "log")):
        frame = made([[0.01, 0.9]], loss=[most, 1.0])
        loss, accuracy = drawn(pictures.curves({"a": frame})).axes
        assert (loss.get_yscale(), accuracy.get_yscale()) == (scale, "linear")


def test_a_band_on_a_logarithm_stays_above_zero():
    """Where mean - std is negative the band is cut, not lost."""
    frame = made([[0.1] * 3] * 2)
    frame["train_loss"] = [100.0, 3.0, 1.0, 1.0, 0.1, 0.01]
    axis = drawn(pictures.curves({"a": frame})).axes[0]
    assert axis.get_yscale() == "log"
    (path,) = axis.collections[0].get_paths()
    assert path.vertices[:, 1].min() > 0


def test_smoothed_curves():
    """A moving average seed by seed; the caption says so."""
    values = np.array([[0.1, 0.5, 0.3, 0.9], [0.2, 0.2, 0.8, 0.4]])
    figure = drawn(pictures.curves({"a": made(values)}, smooth=2))
    rolled = [[v[0], *((v[1:] + v[:-1]) / 2)] for v in values]
    got = figure.axes[1].lines[0].get_ydata()
    np.testing.assert_allclose(got, np.mean(rolled, axis=0))
    assert "Moving average over 2 evaluations." in said(figure)


def test_what_curves_refuse(both):
    """An x or a metric that there is not; the message lists what there is."""
    with pytest.raises(
        ValueError, match="x must be one of round, bits, gradients, sec"
    ):
        both.curves(x="time")
    with pytest.raises(ValueError, match="metric must be one of .*: got 'accuracy'"):
        both.curves(["accuracy"])


def test_members_with_other_metrics():
    """Every panel names the members that it shows, where they are not all."""
    frames = {"a": made([[0.1, 0.2]]), "b": made([[3.0, 2.0]], "test_loss")}
    both, first, second = drawn(pictures.curves(frames)).axes
    assert [legend(axis) for axis in (both, first, second)] == [
        ["a", "b"],
        ["a"],
        ["b"],
    ]
    assert [len(axis.lines) for axis in (both, first, second)] == [2, 1, 1]
    alone = drawn(pictures.curves(frames, metrics=["test_loss"])).axes[0]
    assert legend(alone) == ["b"]
    alike = pictures.curves({"a": frames["a"], "c": frames["a"]}).axes
    assert alike[1].get_legend() is None  # one is enough


def test_members_differ_without_colour():
    """In dashes and marks too, and up to 40 of them."""
    styles = [line(number) for number in range(40)]
    assert len(set(styles)) == 40
    assert len({style[1:] for style in styles}) == 40


# ---- targets -------------------------------------------------------------------------


def test_target_bars():
    """Bars of mean rounds; open ones with T+ where a seed does not arrive."""
    frames = {
        "a": made([[0.1, 0.6, 0.7], [0.5, 0.6, 0.7]]),
        "b": made([[0.1, 0.2, 0.7], [0.1, 0.2, 0.3]]),
    }
    figure = drawn(pictures.target_bars(frames, [0.5, 0.7]))
    (axis,) = figure.axes
    assert labels(axis) == ("target: test accuracy", "rounds to target")
    assert [t.get_text() for t in axis.get_xticklabels()] == ["50 %", "70 %"]
    assert [bar.get_height() for bar in axis.patches] == [1.5, 3, 3, 3]
    assert [bar.get_hatch() for bar in axis.patches] == [None, None, "//", "//"]
    assert [text.get_text() for text in axis.texts] == ["1.5", "3.0", "3+", "3+"]
    assert legend(axis) == ["a", "b"]
    assert "First raw crossing. Whiskers: ± sample standard" in said(figure)
    assert "T+: some seed did not reach it" in said(figure)
    reached = pictures.target_bars({"a": frames["a"]}, [0.5])
    assert "T+" not in said(reached)


def test_target_bars_of_a_comparison(both):
    """Targets of the data set by default; another metric must bring its own."""
    (axis,) = drawn(both.target_bars()).axes
    target = TINY.dataset_defaults.target
    assert [t.get_text() for t in axis.get_xticklabels()] == [f"{100 * target:g} %"]
    assert {text.get_text() for text in axis.texts} == {"3+"}
    (axis,) = drawn(both.target_bars(100.0, "test_loss")).axes
    assert axis.get_xlabel() == "target: test loss"
    assert {text.get_text() for text in axis.texts} == {"1.0"}
    with pytest.raises(ValueError, match="targets must be given for test_loss"):
        both.target_bars(metric="test_loss")


# ---- clients -------------------------------------------------------------------------


def test_selection(both):
    """Shares of rounds and variances of weights, client by client, in NumPy."""
    figure = drawn(both.selection())
    left, right = figure.axes
    assert labels(left) == (
        "examples of the client",
        "share of rounds it takes part in",
    )
    assert labels(right) == ("examples of the client", "variance of its weight")
    assert legend(left) == ["fast", "still"]
    rows = both.members["fast"].cohorts
    weight = np.zeros((2, 3, 6))  # seed, round, client
    weight[rows["seed"], rows["round"] - 1, rows["client"]] = rows["weight"]
    weight = weight.reshape(6, 6)
    size = both.members["fast"].clients["examples"][:6]
    share, variance = (axis.collections[0].get_offsets() for axis in (left, right))
    np.testing.assert_allclose(share, np.stack([size, (weight > 0).mean(0)], 1))
    np.testing.assert_allclose(variance[:, 1], weight.var(0), atol=1e-6)
    assert "One point per client" in said(figure)


def test_client_distributions(both):
    """Shares of clients at or below a value, of the server's model and of own ones."""
    figure = drawn(both.client_distributions())
    plain, personal = figure.axes
    assert plain.get_xlabel() == "held out accuracy in %"
    assert personal.get_xlabel() == "personal held out accuracy in %"
    assert plain.get_ylabel() == "share of clients at or below, in %"
    assert legend(plain) == ["fast", "still"]
    values = both.members["fast"].clients["personal_held_out_accuracy"].dropna()
    count = len(values)  # of those that have examples to be measured on
    assert 0 < count < 12
    one = personal.lines[0]
    np.testing.assert_allclose(one.get_xdata(), np.sort(100 * values))
    np.testing.assert_allclose(one.get_ydata(), np.arange(1, count + 1) / count)
    assert "all seeds together" in said(figure)
    loss = both.client_distributions("held_out_loss").axes[0]
    assert loss.get_xlabel() == "held out loss"
    with pytest.raises(ValueError, match="one of held_out_.*: got 'accuracy'"):
        both.client_distributions("accuracy")


def test_pictures_of_clients_need_clients(both):
    """The message says how to run; some member's clients are enough."""
    bare = dataclasses.replace(both.members["fast"], clients=None, cohorts=None)
    alone = fm.Comparison({"bare": bare})
    with pytest.raises(ValueError, match="needs cohorts: run with cohorts=True"):
        alone.selection()
    with pytest.raises(ValueError, match="run with per_client='global' or 'personal'"):
        alone.client_distributions()
    counted = both.members["still"].clients[["seed", "client", "examples"]]
    chosen = dataclasses.replace(both.members["still"], clients=counted)
    mixed = fm.Comparison(
        {"chosen": chosen, "fast": both.members["fast"], "bare": bare}
    )
    plain = drawn(mixed.client_distributions()).axes[0]
    assert plain.get_xlabel() == "held out accuracy in %"
    assert legend(plain) == ["fast"]
    assert legend(drawn(mixed.selection()).axes[0]) == ["chosen", "fast"]


# ---- partitions, sweeps, tunings -----------------------------------------------------


def test_partition_map():
    """Examples by client and class, and a caption that counts."""
    figure = drawn(TINY.partition_map())
    left, right, bar = figure.axes[0], figure.axes[1], figure.axes[2]
    assert labels(left) == ("client", "class")
    assert labels(right) == ("examples of a client", "clients")
    assert bar.get_ylabel() == "examples"
    data = TINY.build().data
    order, offset = np.asarray(data.order), np.asarray(data.offset)
    rows = np.split(np.asarray(data.y)[order], offset[1:])
    counts = np.array([np.bincount(y, minlength=10) for y in rows])
    np.testing.assert_array_equal(left.images[0].get_array(), counts.T)
    size = np.asarray(data.size)
    assert f"6 clients with {size.min()} to {size.max()} examples" in said(figure)
    assert f"(mean {size.mean():.1f})" in said(figure)
    assert sum(bar.get_height() for bar in right.patches) == 6
    assert figure.get_suptitle().startswith("digits, ")


def test_a_grid_is_a_map():
    """Squares with their numbers in percent, and axes with the values tried."""
    cube = shown.grid()
    figure = drawn(cube.heat_map())
    axis, bar = figure.axes
    assert labels(axis) == ("lr", "server_lr")
    assert bar.get_ylabel() == "final valid accuracy in %"
    assert [t.get_text() for t in axis.get_xticklabels()] == ["0.1", "0.2", "0.4"]
    (image,) = axis.images
    last = cube.frame[cube.frame["round"] == 2]
    mean = last.groupby(["server_lr", "lr"])["valid_accuracy"].mean().unstack("lr")
    np.testing.assert_allclose(image.get_array(), 100 * mean)
    texts = {text.get_text() for text in axis.texts}
    assert texts == {f"{100 * v:.3g}" for v in mean.to_numpy().ravel()}
    assert "Means over seeds" in said(figure)
    assert not axis.collections


def test_random_points_are_points():
    """No squares of what was not tried; a logarithm where a number spans orders."""
    cube = shown.points()
    figure = drawn(cube.heat_map())
    axis = figure.axes[0]
    assert not axis.images and len(axis.collections) == 1
    (found,) = axis.collections
    cells = cube.cells().sort_values(["server_lr", "lr"])
    np.testing.assert_allclose(found.get_offsets(), cells[["lr", "server_lr"]])
    np.testing.assert_allclose(found.get_array(), 100 * cells["mean"])
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "linear")
    assert said(figure).startswith("12 random points.")


def test_curves_of_a_sweep():
    """The best cells by name, under a title that says of how many."""
    figure = drawn(shown.grid().curves(top=2))
    assert figure.get_suptitle() == (
        "the best 2 of 6 configurations by final valid accuracy"
    )
    assert len(legend(figure.axes[0])) == 2
    assert all(text.startswith("lr=") for text in legend(figure.axes[0]))


def test_trajectory():
    """Points by cost, the best so far, a baseline's best so far, and the numbers."""
    tuned, cube = shown.tuned(), shown.grid()
    figure = drawn(tuned.trajectory(cube))
    left, right = figure.axes
    assert left.get_xlabel() == "cost in rounds"
    assert labels(right) == ("update", "value")
    assert legend(left) == [
        "start",
        "gradient",
        "best so far",
        "best so far, random sweep",
    ]
    assert legend(right) == ["lr"]
    start, tried, best, baseline = left.lines
    values = [*start.get_ydata(), *tried.get_ydata()]
    np.testing.assert_allclose(values, tuned.frame[tuned.objective])
    lowest = np.minimum.accumulate(tuned.frame[tuned.objective])
    np.testing.assert_allclose(best.get_ydata(), lowest)
    assert baseline.get_xdata().tolist() == [4, 8, 12, 16, 20, 24]  # 2 rounds, 2 seeds
    assert (np.diff(baseline.get_ydata()) <= 0).all()
    assert said(figure).startswith("A gradient costs several runs")


# ---- files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "start"), [(".png", PNG), (".svg", SVG), (".pdf", PDF)]
)
def test_files_by_their_ending(tmp_path, ending, start):
    """PNG for pages, SVG and PDF for papers."""
    path = tmp_path / f"picture{ending}"
    pictures.save(pictures.curves({"a": made([[0.1, 0.2]])}), path)
    assert path.read_bytes().startswith(start)


def test_another_ending_is_refused(tmp_path):
    """The message lists the endings; nothing is written."""
    figure = pictures.new_figure(2, 2)
    with pytest.raises(ValueError, match=r"end in \.png, \.svg, \.pdf: got '.*p\.bmp'"):
        pictures.save(figure, tmp_path / "p.bmp")
    assert not list(tmp_path.iterdir())


def test_members_keep_their_colour(both):
    """In curves, bars and selections a member looks the same."""
    lines = both.curves().axes[0].lines
    bars = both.target_bars().axes[0].patches
    points = both.selection().axes[0].collections
    for number in range(2):
        colour = to_hex(lines[number].get_color())
        assert to_hex(bars[number].get_edgecolor()) == colour
        assert to_hex(points[number].get_facecolor()[0]) == colour
