"""Rungs and brackets, on numbers that a reader can check by hand."""

import pytest

from fedjax_mos.lab.searches.brackets import brackets, cost


def rungs(plan):
    return [[tuple(rung) for rung in bracket.rungs] for bracket in plan]


def test_halving_as_published():
    """n eta^-k configurations go to round R eta^(k + 1 - m)."""
    plan = brackets([1.0] * 256, 100, 4, rungs=4)
    assert rungs(plan) == [[(2, 256), (7, 64), (25, 16), (100, 4)]]
    assert plan[0].configurations == list(range(256))
    spent = 256 * 2 + 64 * 5 + 16 * 18 + 4 * 75
    assert cost(plan, [1.0] * 256) == spent


def test_as_few_rungs_as_the_budget_allows():
    """A careful plan is passed over, or one that costs too much is taken."""
    costs = [1.0] * 256
    assert len(brackets(costs, 100, 4)[0].rungs) == 3  # 0.16 of a sweep, two 0.44
    assert cost(brackets(costs, 100, 4), costs) <= 25600 / 4
    assert len(brackets(costs, 100, 4, budget=11200)[0].rungs) == 2
    assert len(brackets(costs, 100, 4, budget=11199)[0].rungs) == 3
    assert rungs(brackets([1.0], 100, 4)) == [[(100, 1)]]
    assert len(brackets([1.0] * 4, 100, 4)[0].rungs) == 2  # more than a quarter


def test_the_dearest_may_survive():
    """A budget in gradients that holds only if the cheap methods win."""
    costs = [1.0] * 12 + [10.0] * 4
    plan = brackets(costs, 16, 4, rungs=2)
    assert rungs(plan) == [[(4, 16), (16, 4)]]
    assert cost(plan, costs) == 4 * 52 + 12 * 40


def test_hyperband_shares_the_configurations():
    """A configuration that is lost or run twice; brackets of very different cost."""
    plan = brackets([1.0] * 85, 64, 4, rungs=3, hyperband=True, seed=3)
    inside = sorted(n for bracket in plan for n in bracket.configurations)
    assert inside == list(range(85))
    assert [len(bracket.rungs) for bracket in plan] == [3, 2, 1]
    assert [bracket.rungs[0].round for bracket in plan] == [4, 16, 64]
    each = [cost([bracket], [1.0] * 85) for bracket in plan]
    assert max(each) < 2 * min(each)


BAD = [
    ({"eta": 1}, ("eta", "at least 2", "got 1")),
    ({"rungs": 0}, ("rungs", "between 1 and 2", "got 0")),
    ({"rungs": 3}, ("rungs", "16 rounds", "got 3")),
    ({"budget": 10}, ("budget", "at least 28 rounds", "got 10")),
    ({"budget": 39, "rungs": 1}, ("budget", "at least 64 rounds", "1 rungs")),
]


@pytest.mark.parametrize(("named", "fragments"), BAD)
def test_bad_input(named, fragments):
    """Plans that cannot be, or that cost more than was allowed."""
    with pytest.raises(ValueError) as error:
        brackets([1.0] * 4, 16, **({"eta": 4} | named))
    for fragment in fragments:
        assert fragment in str(error.value)
