"""Any option of any component by name: homes, texts, schedules."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import options

SERVER = {"algorithm": "fedopt", "model": "logistic"}


def value(name, **fields):
    """What an option is in an experiment."""
    parts = fm.Experiment(**fields).parts
    kind, path = options.home(name, parts)
    return options.value_at(parts[kind].spec, path)


@pytest.mark.parametrize(
    ("name", "given", "expected", "fields"),
    [
        ("lr", "0.5", 0.5, {}),
        ("algorithm.lr", 1, 1.0, {}),
        ("fedmos.lr", 0.5, 0.5, {}),
        ("sampler.weights", "mean", "mean", {"sampler": "ucs"}),
        ("ucs.weights", "mean", "mean", {"sampler": "ucs"}),
        ("partition.alpha", "0.3", 0.3, {"partition": "dirichlet"}),
        ("dirichlet.alpha", 0.3, 0.3, {"partition": "dirichlet"}),
        ("model.hidden", "8,4", (8, 4), {}),
        ("mlp.hidden", [8, 4], (8, 4), {}),
        ("uplink.fraction", "0.1", 0.1, {"uplink": "compressed"}),
        ("compressed.fraction", "0.1", 0.1, {"uplink": "compressed"}),
        ("dataset.iid", "true", True, {"dataset": "synthetic"}),
        ("synthetic.beta", "2", 2.0, {"dataset": "synthetic"}),
        ("local.clip", "none", None, {}),
        ("decay.round_decay", "0.9", 0.9, {}),
        ("first_batch", "16", 16, {}),
        ("first_batch", "full", "full", {}),
    ],
)
def test_options_are_reached_by_kind_and_name(name, given, expected, fields):
    """`option`, `kind.option` and `component.option` are one and the same."""
    found = value(name, **fields, options={name: given})
    assert found == expected and type(found) is type(expected)


def test_options_of_an_optimizer_are_nested():
    """An optimizer is a call of optax; its numbers are options below its own name."""
    text = {"server_optimizer": "adam(learning_rate=0.01)"}
    where = "server_optimizer.learning_rate"
    for name in (where, f"algorithm.{where}", f"fedopt.{where}"):
        given = {**SERVER, "options": text | {name: "0.5"}}
        assert value(where, **given) == 0.5
        made = fm.Experiment(**given).parts["algorithm"].spec
        assert made.static["server_optimizer"].name == "adam"
        assert made.hp["server_optimizer"]["learning_rate"] == 0.5
    assert value(where, **SERVER, options=text) == 0.01
    with pytest.raises(ValueError, match="no option 'server_optimizer.learning_rate'"):
        fm.Experiment(**SERVER, options={where: 0.5})  # the default is an object


def test_words_of_other_libraries_are_understood():
    """A reader who is shown sixteen options, and not the one that is meant."""
    with pytest.raises(ValueError, match=r"did you mean algorithm\.lr\?"):
        fm.Experiment(options={"learning_rate": 0.1})


def test_an_algorithm_is_handed_one_thing():
    """Options without a star before them, which nothing would fill."""
    with pytest.raises(ValueError, match="local work alone.*got 'lr' too"):
        fm.Experiment(algorithm=lambda local, lr: None)


def test_one_option_by_two_names_is_refused():
    """Two values for one option are a mistake, not a matter of order."""
    with pytest.raises(ValueError, match=r"lr and algorithm\.lr are the same option"):
        fm.Experiment(options={"lr": 0.1, "algorithm.lr": 0.2})


def test_replaced_goes_by_what_is_meant():
    """A change replaces an option also under another of its names."""
    one = fm.Experiment(options={"algorithm.lr": 0.1, "prox": 0.5})
    assert options.replaced(one.options, {"lr": 0.2}, one.parts) == {
        "prox": 0.5,
        "lr": 0.2,
    }


# ---- schedules -----------------------------------------------------------------------

RATES = [0.3, 0.2]


@pytest.mark.parametrize(
    "given", ["0.3,0.2", fm.Schedule(RATES), fm.Schedule(jnp.array(RATES))]
)
def test_schedules_are_options(given):
    """One number per round, as text or object, is a leaf with that many values."""
    one = fm.Experiment(rounds=2, options={"lr": given})
    found = one.parts["algorithm"].spec.hp["lr"]
    assert isinstance(found, fm.Schedule)
    np.testing.assert_allclose(found.values, RATES, rtol=1e-6)
    assert one.own == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lr": "0.3,0.2"}, r"schedule algorithm\.lr .* 3 rounds: got 2"),
        (
            {"local.clip": fm.Schedule(RATES)},
            r"schedule local\.clip .* 3 rounds: got 2",
        ),
        ({"lr": "0.3,0.2,0"}, r"lr must lie in \(0, inf\)"),
        ({"lr": "0.3,,0.2"}, "lr must be a number"),
        ({"smallest": "2,3,4"}, "smallest must be an integer"),
        ({"lr": lambda t: 0.1}, r"got a function; fm\.Schedule\.of"),
    ],
    ids=["short", "local", "range", "text", "static", "function"],
)
def test_wrong_schedules_are_refused(given, message):
    """A schedule that ends too early or is none is refused where it is written."""
    with pytest.raises(ValueError, match=message):
        fm.Experiment(rounds=3, options=given)


def test_data_have_no_schedule():
    """A number that shapes data or model is the same in all rounds."""
    fields = {"rounds": 2, "partition": "dirichlet"}
    with pytest.raises(ValueError, match=r"partition\.alpha must be one number"):
        fm.Experiment(**fields, options={"partition.alpha": "0.3,0.2"})


def test_rounds_are_checked_against_schedules():
    """A copy with more rounds than its schedule has is refused."""
    one = fm.Experiment(rounds=2, options={"lr": fm.Schedule(RATES)})
    with pytest.raises(ValueError, match="3 rounds: got 2"):
        dataclasses.replace(one, rounds=3)
