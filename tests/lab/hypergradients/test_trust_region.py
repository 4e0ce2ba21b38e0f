"""Trust regions, shapes and coordinates, on functions whose minimum is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import fedjax_mos as fm
from fedjax_mos.lab.hypergradients.coordinates import Coordinates
from fedjax_mos.lab.hypergradients.scales import scales_of
from fedjax_mos.lab.hypergradients.shapes import shape_of
from fedjax_mos.lab.hypergradients.start import numbers_of
from fedjax_mos.lab.hypergradients.trust_region import TrustRegion

LOW, HIGH = np.full(3, -4.0), np.full(3, 4.0)
HERE = np.array([1.0, -2.0, 0.5])


def descend(function, start, updates=60, radius=0.5):
    """All points and values on the way."""
    region, point, seen = TrustRegion(LOW, HIGH, radius), start, []
    while point is not None and len(seen) < updates:
        value, slope = function(point)
        seen.append((point, value, region.tell(point, value, slope), region.radius))
        point = region.propose()
    return region, seen


def bowl(x):
    weights = np.array([1.0, 10.0, 0.1])
    return float(weights @ (x - HERE) ** 2), 2 * weights * (x - HERE)


def test_it_finds_a_minimum():
    """Steps that go astray where numbers matter very differently."""
    region, seen = descend(bowl, np.zeros(3))
    assert region.value < 0.02 * seen[0][1]


@pytest.mark.parametrize("seed", range(20))
def test_it_never_ends_higher(seed):
    """A wrong, rough or missing slope that leads uphill."""
    rng = np.random.default_rng(seed)

    def rough(x):
        value, slope = bowl(x)
        missing = rng.uniform() < 0.2
        return value + rng.normal(), None if missing else rng.normal(size=3) + slope

    region, seen = descend(rough, rng.uniform(-4, 4, 3))
    usable = [value for _, value, accepted, _ in seen if accepted]
    assert usable == sorted(usable, reverse=True)
    assert not usable or region.value == usable[-1]
    points = np.array([point for point, *_ in seen])
    assert (points >= LOW).all() and (points <= HIGH).all()


def test_the_region_follows_success():
    """A region that grows although nothing falls, or steps that leave it."""
    _, seen = descend(bowl, np.zeros(3), updates=12)
    best = seen[0]
    for before, now in zip(seen, seen[1:], strict=False):
        step = np.abs(now[0] - best[0]).max()
        assert step <= before[3] * (1 + 1e-9)
        if now[2]:
            assert now[3] >= before[3]
            best = now
        else:
            assert now[3] == before[3] / 2


def test_one_name_has_one_unit():
    """Rounds of a schedule that follow their noise as far as others their slope."""
    low, high, names = np.full(4, -4.0), np.full(4, 4.0), np.array([0, 0, 0, 1])
    region = TrustRegion(low, high, 0.5, names)
    slope = np.array([0.5, 0.01, -0.01, 0.002])  # the last one has its own unit
    region.tell(np.zeros(4), 1.0, slope)
    step = region.propose()
    np.testing.assert_allclose(step[:3] / step[0], slope[:3] / slope[0], rtol=1e-6)
    assert step[3] == pytest.approx(step[0] / np.sqrt(3), rel=1e-3)


# ---- schedules of few numbers --------------------------------------------------------


def test_shapes():
    """Segments of other lengths, or a spline that is not the natural one."""
    assert shape_of("lr", "rounds", 4).tolist() == np.eye(4).tolist()
    segments = shape_of("lr", "segments:3", 10)
    assert segments.sum(0).tolist() == [4, 3, 3] and set(segments.ravel()) == {0, 1}
    spline, knots = shape_of("lr", "spline:4", 10), np.array([1.0, 3.0, -1.0, 2.0])
    wanted = CubicSpline([0, 3, 6, 9], knots, bc_type="natural")(np.arange(10))
    np.testing.assert_allclose(spline @ knots, wanted, atol=1e-12)
    for text in ("rounds", "segments:7", "spline:5"):
        np.testing.assert_allclose(shape_of("lr", text, 10).sum(1), 1)


@pytest.mark.parametrize("text", ["segments", "steps:3", "segments:11", "spline:1"])
def test_bad_shapes(text):
    """A schedule that nobody asked for."""
    with pytest.raises(ValueError, match="schedule of lr must"):
        shape_of("lr", text, 10)


def coordinates(options, schedules, names):
    experiment = fm.Experiment(rounds=6, model="logistic", options=options)
    shapes = {n: shape_of(n, text, 6) for n, text in schedules.items()}
    _, named = numbers_of(experiment, names, shapes)
    start = jax.tree.map(np.asarray, named)
    return start, Coordinates(scales_of(experiment, named, {}), start, shapes)


def test_there_and_back():
    """A number that changes its place, or a schedule that is none."""
    options = {"lr": 0.2, "server_momentum": 0.3, "scale": 1.0, "storm": 0.0}
    schedules = {"lr": "segments:3", "server_momentum": "spline:2"}
    start, box = coordinates(options, schedules, ("storm", "scale"))
    row = box.row(start)
    assert row.shape == (1 + 2 + 3 + 2,) and (row >= box.low).all()
    named = box.back(jnp.asarray(row))
    np.testing.assert_allclose(named["lr"].values, np.full(6, 0.2), rtol=1e-5)
    np.testing.assert_allclose(named["server_momentum"].values, 0.3, rtol=1e-5)
    np.testing.assert_allclose(named["storm"], 0.01, rtol=1e-4)  # the bound
    assert jax.tree.structure(named["scale"]) == jax.tree.structure(start["scale"])
    for number, value in enumerate(named.values()):
        assert all((np.asarray(v) > 0).all() for v in jax.tree.leaves(value)), number


def test_without_names_the_schedules_are_tuned():
    """All numbers of the algorithm are tuned beside the one schedule asked for."""
    start, _ = coordinates({}, {"lr": "rounds"}, None)
    assert list(start) == ["lr"] and len(start["lr"]) == 6
