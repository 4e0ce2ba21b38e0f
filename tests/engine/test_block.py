"""One program serves blocks of any length, evaluated anywhere."""

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.engine.interrupts import Pace
from fedjax_mos.engine.visits import evaluated_in, visits
from fedjax_mos.types import HostUpdate
from tests import problem


def simulation(count):
    """FedAvg on the toy population; `count` grows when a client is traced."""

    def counted(local, **options):
        count.append(None)
        return fm.algorithms.fedavg(local, **options)

    return fm.simulation(
        fm.spec(counted, lr=0.1),
        problem.work(),
        fm.spec(fm.samplers.adaptive),
        cohort=3,
    )


def test_length_and_interval_are_no_part_of_the_program():
    """Runs of other lengths and intervals trace nothing and give the same rounds."""
    built = []
    sim, data, key = simulation(built), problem.data(), jax.random.key(0)
    state = sim.init(problem.tanh_params(), data, key)
    given = {
        "evaluate": problem.evaluate(),
        "stores": {"train": data},
        "progress": False,
    }
    _, every_round = fm.run(sim, data, state, key, 12, **given)
    before = len(built)
    for rounds, every in ((3, 1), (11, 4), (25, 7)):
        _, history = fm.run(sim, data, state, key, rounds, every=every, **given)
        found = history.set_index("round").train_loss.dropna()
        wanted = {r for r in range(1, rounds + 1) if r % every == 0} | {rounds}
        assert set(found.index) == wanted
        common = [r for r in found.index if r <= 12]
        expected = every_round.set_index("round").train_loss[common]
        np.testing.assert_array_equal(found[common], expected)
    assert len(built) == before


def test_evaluations_go_by_the_number_of_the_round():
    """A run in two parts is evaluated at the same rounds as one without a break."""
    sim, data, key = simulation([]), problem.data(), jax.random.key(0)
    state = sim.init(problem.tanh_params(), data, key)
    given = {
        "evaluate": problem.evaluate(),
        "stores": {"train": data},
        "every": 3,
        "progress": False,
    }
    half, first = fm.run(sim, data, state, key, 5, **given)
    _, second = fm.run(sim, data, half, key, 4, **given)
    seen = [h.set_index("round").train_loss.dropna() for h in (first, second)]
    assert [list(s.index) for s in seen] == [[3, 5], [6, 9]]


@pytest.mark.parametrize(
    ("first", "last", "update", "wanted"),
    [
        (0, 25, None, [(0, 10), (10, 20), (20, 25)]),
        (7, 12, None, [(7, 10), (10, 12)]),
        (0, 6, HostUpdate(None, every=4), [(0, 4), (4, 6)]),
        (0, 12, HostUpdate(None, warm_up=3), [(0, 3), (3, 10), (10, 12)]),
    ],
)
def test_visits_end_at_absolute_rounds(first, last, update, wanted):
    """The same rounds form the same visits, wherever a run begins or ends."""
    assert [*visits(first, last, update, Pace(each=0.0))] == wanted


def test_the_last_round_is_evaluated():
    """The interval and the end of the run decide, rounds behind the end do not."""
    assert evaluated_in(10, 14, 14, 3).nonzero()[0].tolist() == [1, 3]
    assert evaluated_in(0, 10, 30, 5).nonzero()[0].tolist() == [4, 9]
