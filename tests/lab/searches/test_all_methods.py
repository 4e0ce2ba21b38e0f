"""Every method tuned at the same cost, and what the catalog takes from it."""

import dataclasses
import tomllib

import numpy as np
import pytest

from fedjax_mos import cli
from fedjax_mos.lab import catalog
from fedjax_mos.lab.searches.all_methods import FACTOR, points_of, search_all
from tests.lab.tiny import TINY

NAMES = ["fedavg", "fedavgm"]


@pytest.mark.parametrize("name", catalog.ALGORITHMS)
def test_points_are_around_the_published_numbers(name):
    """A box that leaves the range, a number that is forgotten, another budget."""
    one = dataclasses.replace(TINY, algorithm=name, options={})
    points = points_of(one, 50)
    published = catalog.ALGORITHMS[name].spec().hp
    assert len(points) == 50
    for option in points[0]:
        values = np.array([point[option] for point in points])
        first = float(published[option])
        if option == "lr" and catalog.ALGORITHMS[name].local_lr:
            first = one.dataset_defaults.lr
        assert values[0] == pytest.approx(first, rel=1e-2)
        limit = 1.01 * FACTOR
        odds = np.array([1.0])
        if first > 0 and not (first == 1 and (values == 1).all()):
            unit = first < 1 and (values < 1).all() and (values / first > limit).any()
            odds = values / (1 - values) if unit else values
        assert odds.max() / odds[0] <= limit and odds[0] / odds.min() <= limit
        dataclasses.replace(one, options=points[-1])  # in range, or this raises


@pytest.mark.thorough
def test_winners_are_compared_on_other_seeds(tmp_path):
    """Winners judged by the seeds that chose them; numbers lost on the way."""
    found = search_all(
        TINY, NAMES, random=4, seeds=2, fresh=2, out=tmp_path, progress=False
    )
    assert [*found.members] == NAMES
    tuned = tomllib.loads((tmp_path / "tuned.toml").read_text())[TINY.dataset_name]
    for name, result in found.members.items():
        assert result.frame["seed"].min() >= TINY.seed + 1000
        assert result.experiment.options.items() >= tuned[name].items()
        assert set(tuned[name]) == set(catalog.ALGORITHMS[name].spec().hp)
    again = search_all(
        TINY, NAMES, random=4, seeds=2, fresh=2, out=tmp_path, progress=False
    )
    # Seconds too: nothing ran again.
    np.testing.assert_allclose(again.frame["seconds"], found.frame["seconds"], 1e-5)


def test_every_method_is_tuned():
    """A method that is compared with its paper's numbers, others with tuned ones."""
    for name, entry in catalog.ALGORITHMS.items():
        assert set(entry.tuned["digits"]) <= set(entry.spec("digits").hp), name
        assert "lr" in entry.tuned["digits"], name


def test_too_many_draws_are_refused_at_once():
    """Every one of them drawn before they are counted."""
    with pytest.raises(ValueError, match="20,000 runs: got 100,000,000"):
        search_all(TINY, random=100_000_000, seeds=1, progress=False)


def test_every_method_has_the_same_budget(capsys):
    """Options that would give one method more than another."""
    with pytest.raises(SystemExit, match="2"):
        cli.main(["search", "--all", "--budget", "100"])
    assert "--all takes of the options" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["search", "--all", "--random", "0"])
    assert "random must be at least 1: got 0" in capsys.readouterr().err
