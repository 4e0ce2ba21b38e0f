"""Components describe themselves: options, kinds, ranges and defaults by signature."""

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_mos as fm
from fedjax_mos import components, signatures
from fedjax_mos.lab import catalog
from fedjax_mos.lab.citation import references
from tests import problem

TABLES = {
    "algorithms": catalog.ALGORITHMS,
    "samplers": catalog.SAMPLERS,
    "channels": catalog.CHANNELS,
    "partitions": catalog.PARTITIONS,
    "models": catalog.MODELS,
}


# ---- leaf or static -----------------------------------------------------------------


def annotated(
    tools,
    *,
    rate: float,
    weights: jax.Array,
    ranged: fm.types.Unit,
    maybe: float | None = None,
    count: int = 2,
    flag: bool = True,
    mode: str = "up",
    sizes: tuple[int, ...] = (1, 2),
):
    return tools, rate, weights, ranged, maybe, count, flag, mode, sizes


def test_the_annotation_says_what_is_a_leaf():
    """Floats and arrays are leaves; what decides shapes and code is static."""
    made = fm.spec(annotated, rate=0.1, weights=np.ones(3), ranged=0.5)
    assert set(made.hp) == {"rate", "weights", "ranged"}
    assert made.static == {
        "maybe": None,
        "count": 2,
        "flag": True,
        "mode": "up",
        "sizes": (1, 2),
    }
    assert "maybe" in made.replace(maybe=0.3).hp
    assert "maybe" in made.replace(maybe=0.3).replace(maybe=None).static


def test_the_default_says_it_without_an_annotation():
    """A plain `x=0.5` is a hyperparameter, `x=2`, `x="up"` and `x=(1.0,)` are not."""

    def plain(tools, *, rate=0.5, count=2, mode="up", flag=False, sizes=(1.0, 2.0)):
        pass

    made = fm.spec(plain)
    assert made.hp == {"rate": 0.5}
    assert set(made.static) == {"count", "mode", "flag", "sizes"}
    assert fm.spec(plain, count=3).static["count"] == 3


def test_the_value_says_it_without_a_default():
    """Numbers and arrays are leaves, anything else is static."""

    def bare(tools, *, a, b, c, d, e):
        pass

    made = fm.spec(bare, a=0.5, b=np.ones(2), c="up", d=(1, 2), e=True)
    assert set(made.hp) == {"a", "b"} and set(made.static) == {"c", "d", "e"}


@pytest.mark.parametrize("name", ["lr", "wobble", "rounds"])
def test_one_means_one_point_zero(name):
    """An own float may be given as an integer, whatever it is called."""
    scope = {}
    for number, signature in enumerate((f"{name}: float", f"{name}=0.5", name)):
        exec(f"def own{number}(tools, *, {signature}): return {name}", scope)
        factory = scope[f"own{number}"]
        whole, point = (fm.spec(factory, **{name: value}) for value in (1, 1.0))
        assert whole.hp == point.hp == {name: 1.0}
        assert type(whole.hp[name]) is float and not whole.static


# ---- ranges and choices -------------------------------------------------------------


def test_only_an_annotation_gives_a_range():
    """A stranger's lr may be negative; ours may not."""

    def stranger(local, *, lr: float = 0.1):
        return lr

    assert fm.spec(stranger, lr=-1.0).hp == {"lr": -1.0}
    components.check_hp(fm.spec(stranger), {"lr": -1.0}, "algorithm")
    for value in (-1.0, 0.0):
        with pytest.raises(ValueError, match=r"lr must lie in \(0, inf\): got"):
            fm.spec(fm.algorithms.fedavg, lr=value)
    with pytest.raises(ValueError, match=r"storm must lie in \[0, 1\]: got 1.5"):
        fm.spec(fm.algorithms.fedmos, storm=1.5)
    with pytest.raises(ValueError, match=r"algorithm.lr must lie in \(0, inf\)"):
        made = fm.spec(fm.algorithms.fedavg)
        components.check_hp(made, {"lr": jnp.array(-1.0)}, "algorithm")
    with pytest.raises(ValueError, match="lr must be a finite number: got nan"):
        fm.spec(stranger, lr=float("nan"))


def test_options_have_names():
    """A number by position, which Python's own message calls an argument of `spec`."""
    with pytest.raises(
        ValueError, match=r"by name, fm.spec\(fedavg, lr=...\): got 0.1"
    ):
        fm.spec(fm.algorithms.fedavg, 0.1)


def test_a_name_is_no_optimizer():
    """A string where an object is wanted fails far from where it was given."""
    with pytest.raises(ValueError, match="server_optimizer must be an optax transform"):
        fm.spec(fm.algorithms.fedopt, server_optimizer="adam")


def test_a_value_of_another_kind_is_refused():
    """A number in place of a tuple, or a typo in a choice, which has others."""
    with pytest.raises(ValueError, match="hidden must be a tuple: got 32"):
        fm.spec(fm.models.mlp, hidden=32)
    with pytest.raises(ValueError, match="option must be 1 or 2: got 3"):
        fm.spec(fm.algorithms.fedams, option=3)
    message = "client_state must be 'reset' or 'kept': got 'keep'"
    with pytest.raises(ValueError, match=message):
        fm.spec(fm.algorithms.fedopt, client_state="keep")
    with pytest.raises(ValueError, match="first_batch must be 'full' or 'step' or"):
        fm.spec(fm.algorithms.fedmos, first_batch="all")
    with pytest.raises(ValueError, match="own_init must be true or false: got 1"):
        fm.spec(fm.algorithms.stem, own_init=1)

    def own(tools, *, mode: Literal["a", "b"] = "a"):
        pass

    assert fm.spec(own, mode="b").static == {"mode": "b"}
    with pytest.raises(ValueError, match="mode must be 'a' or 'b': got 'c'"):
        fm.spec(own, mode="c")


def test_options_are_complete_and_known():
    """A missing value and a misspelt name are refused by name."""
    with pytest.raises(ValueError, match="annotated needs a value for weights"):
        fm.spec(annotated, rate=0.1, ranged=0.5)
    message = "fedavg has no option 'momentum'; it has lr, .*server_lr"
    with pytest.raises(ValueError, match=message):
        fm.spec(fm.algorithms.fedavg, momentum=0.9)
    with pytest.raises(ValueError, match="uniform_release has no option 'm'.* none"):
        fm.spec(fm.samplers.uniform_release, m=3)
    assert fm.spec(lambda tools, **more: more, m=3.0).build(None) == {"m": 3.0}


def test_a_function_for_a_number_gets_a_hint():
    """An optax schedule is a function of the step: Schedule.of makes one per round."""
    warm_up = optax.linear_schedule(0.0, 0.1, 5)
    with pytest.raises(ValueError, match=r"lr must be a number.*fm\.Schedule\.of"):
        fm.spec(fm.algorithms.fedavg, lr=warm_up)
    assert "lr" in fm.spec(fm.algorithms.fedavg, lr=fm.Schedule([0.1, 0.2])).hp


# ---- nested, partial, composed ------------------------------------------------------


def adam(rate):
    return fm.spec(
        fm.algorithms.fedopt, server_optimizer=fm.spec(optax.adam, learning_rate=rate)
    )


def after_one_round(algorithm, hp=None):
    sim = fm.simulation(algorithm, problem.work(), problem.fixed_cohort([0, 3]))
    data, key = problem.data(), jax.random.key(0)
    state = sim.init(problem.tanh_params(), data, key, hp)
    return jax.jit(sim.step)(data, state, key)[0].server.params["w"]


def test_a_nested_spec_builds_with_replaced_leaves():
    """The numbers of an optimiser are leaves under the option's name."""
    made = adam(0.1)
    inside = made.hp["server_optimizer"]
    assert made.hp["lr"] == 0.01 and inside["learning_rate"] == 0.1
    assert {"b1", "b2", "eps"} < set(inside)  # its defaults too
    new = {"algorithm": {"server_optimizer": {"learning_rate": 0.3}}}
    replaced, small = after_one_round(made, new), after_one_round(made)
    np.testing.assert_allclose(replaced, after_one_round(adam(0.3)), rtol=1e-6)
    start = problem.tanh_params()["w"]
    np.testing.assert_allclose(replaced - start, 3 * (small - start), rtol=1e-3)
    message = "no hyperparameter algorithm.server_optimizer.rate"
    with pytest.raises(ValueError, match=message):
        after_one_round(made, {"algorithm": {"server_optimizer": {"rate": 0.3}}})


def test_a_partial_publishes_what_is_left():
    """Defaults that a partial replaces are the ones that hold and are shown."""
    own = partial(fm.algorithms.fedmos, first_batch="step", lr=0.2)
    made = fm.spec(own, prox=0.1)
    assert made.static == {"first_batch": "step"} and made.name == "fedmos"
    assert made.hp == {"lr": 0.2, "storm": 0.1, "prox": 0.1, "server_momentum": 0.8}
    assert components.cited(own) == ("wang2023fedmos",)
    assert components.description(own) == "FedMoS as in the paper."
    with pytest.raises(ValueError, match=r"prox must lie in \[0, inf\)"):
        fm.spec(own, prox=-1.0)


def test_a_composed_factory_publishes_the_options_of_its_parts():
    """moon_acg takes FedACG's options and MOON's, with ranges, and cites both."""
    options = signatures.options_of(fm.algorithms.moon_acg)
    assert set(options) == {
        "lr",
        "server_momentum",
        "client_optimizer",
        "client_state",
        "weight",
        "temperature",
    }
    moon = signatures.options_of(fm.objectives.methods.moon)
    for name in ("weight", "temperature"):
        assert options[name] == moon[name]
    assert options["server_momentum"].interval == fm.types.Interval(0, 1)
    assert components.name_of(fm.algorithms.moon_acg) == "moon_acg"
    assert components.cited(fm.algorithms.moon_acg) == ("li2021moon", "kim2024fedacg")
    with pytest.raises(ValueError, match="has no option 'objective'"):
        fm.spec(fm.algorithms.moon_acg, objective=fm.objectives.plain())


def test_parts_with_one_option_in_common_are_refused():
    """Two meanings of one name would be set together unnoticed."""

    def clashing(*, lr: float = 1.0):
        return fm.objectives.plain()

    with pytest.raises(ValueError, match="more than one part has an option 'lr'"):
        fm.algorithms.on_fedavg(clashing)


def test_bound_and_then_keep_the_options():
    """A Spec with its tools inside, or with its product changed, is set alike."""

    def scaled(tools, *, rate: fm.types.Unit = 0.5, times: int = 2):
        """Scales."""
        return tools * rate * times

    scaled = fm.cite("someone2020")(scaled)
    made = components.bound(fm.spec(scaled), 10.0)
    assert made.build() == 10.0 and made.build(rate=0.25) == 5.0
    assert made.replace(times=3).build() == 15.0
    for base in (scaled, partial(scaled, times=2)):
        doubled = components.then(fm.spec(base), lambda value: 2 * value)
        assert doubled.build(10.0) == 20.0 and doubled.hp == {"rate": 0.5}
        assert doubled.replace(rate=0.25).build(10.0) == 10.0
        assert doubled.name == "scaled"
        assert components.cited(doubled.factory) == ("someone2020",)
        with pytest.raises(ValueError, match="rate must lie in"):
            doubled.replace(rate=2.0)


def test_a_component_itself_has_no_options():
    """An object in place of a Spec is always that object, whatever it is built with."""
    made = components.as_spec("thing")
    assert made.build(1, 2) == "thing" and not made.options
    assert components.as_spec(made) is made


# ---- the catalog --------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
def test_defaults_stand_in_one_place(kind):
    """A catalog entry says only where its variant differs from its factory."""
    for name, entry in TABLES[kind].items():
        known = signatures.arguments_of(entry.factory)
        for option, value in entry.options.items():
            assert known[option].default != value, f"{name}: {option}={value!r}"


@pytest.mark.parametrize("kind", TABLES)
def test_every_reference_exists(kind):
    """What a factory asks to be cited is in references.bib."""
    for name, entry in TABLES[kind].items():
        missing = set(components.cited(entry.factory)) - set(references())
        assert not missing, f"{name}: {missing}"
    if kind == "algorithms":
        assert all(components.cited(entry.factory) for entry in TABLES[kind].values())


def test_a_list_of_numbers_is_no_number():
    """A list for a float is refused with a hint at schedules, before anything runs."""
    with pytest.raises(ValueError, match=r"lr must be a number.*fm\.Schedule"):
        fm.spec(fm.algorithms.fedavg, lr=[0.1, 0.2])


def test_a_whole_default_counts_unless_a_fraction_is_given():
    """Without annotation `steps=5` stays whole, and 0.5 for it is a leaf."""

    def factory(tools, *, rate=1):
        return rate

    assert fm.spec(factory).static == {"rate": 1}
    assert fm.spec(factory, rate=0.5).hp == {"rate": 0.5}


def test_a_factory_is_no_transform():
    """A bare factory of an optimizer is refused before anything runs."""
    with pytest.raises(ValueError, match="client_optimizer must be"):
        fm.spec(fm.algorithms.fedavg, client_optimizer=optax.adam)


def test_arrays_of_integers_stay_integers():
    """An array that indexes arrives as integers, numbers as the parameters' floats."""

    def choose(tools, *, groups: jax.Array, rate: float = 1):
        def sample(state, view, key):
            chosen = groups[view.round % len(groups)]
            cohort = fm.types.Cohort(chosen[None], jnp.ones(1), jnp.ones(1, bool))
            return cohort, state

        return fm.types.Sampler(lambda view, key: (), sample)

    sampler = fm.spec(choose, groups=np.array([3, 1]))
    sim = fm.simulation(
        fm.spec(fm.algorithms.fedavg), problem.work(), sampler, cohort=1
    )
    key, data = jax.random.key(0), problem.data()
    state = sim.init(problem.tanh_params(), data, key)
    _, trace = fm.rollout(sim, data, state, key, 3)
    assert trace.info.cohort.ids[:, 0].tolist() == [3, 1, 3]
    assert jnp.issubdtype(state.hp["sampler"]["rate"].dtype, jnp.floating)
