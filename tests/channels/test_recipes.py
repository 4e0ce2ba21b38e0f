"""Named compositions of channels, and the numbers of ALGORITHMS 8.4."""

import inspect

import jax
import numpy as np
import pytest

import fedjax_mos as fm
from fedjax_mos.lab import catalog
from fedjax_mos.signatures import options_of
from tests.channels.delivery import (
    FRACTION,
    KEY,
    ROUNDS,
    D,
    close,
    deliver,
    sparse,
    top2,
    walk,
)


def relative_errors(make):
    """ALGORITHMS 8.4.9: a constant Gaussian model, d = 1000, top-k 1/8, 40 rounds."""
    theta = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    messages = np.concatenate([np.zeros((1, 1000), np.float32), np.stack([theta] * 40)])
    wires, _ = deliver(make, messages, kappa=0.0)
    gaps = np.linalg.norm(wires.value - theta, axis=1) / np.linalg.norm(theta)
    return gaps[[1, 5, 10, 40]]


DOWN = {"difference": (0.71, 0.18, 0, 0), "literal": (0.71, 1.43, 1.96, 2.0)}


@pytest.mark.parametrize("recipe", [fm.channels.nla_down, fm.channels.aa_down])
@pytest.mark.parametrize("downlink", DOWN)
def test_relative_errors_of_the_downlinks(downlink, recipe):
    """Error feedback on a model that is replaced ends worse than nothing (.04)."""

    def make(kappa):
        return recipe(fraction=1 / 8, kappa=kappa, downlink=downlink)

    got = relative_errors(make)
    np.testing.assert_allclose(got, DOWN[downlink], atol=0.04)
    if downlink == "difference":
        assert got[2] == got[3] == 0


def test_what_lazy_holds_back_goes_to_the_residual():
    """Line 13 of Algorithm 3: e = a - o, with o the repeated message."""

    def make(kappa):
        return fm.channels.nla_compressed(fraction=FRACTION, kappa=kappa)

    messages, last, e = walk(4), np.zeros(D), np.zeros(D)
    wires, states = deliver(make, messages, 1.5)
    for t, message in enumerate(messages.astype(np.float64)):
        a = message + e
        c = top2(a)
        size = np.linalg.norm(last)
        fires = size > 0 and np.linalg.norm(c - last) <= 1.5 * size
        last = last if fires else c
        e = a - last
        assert bool(wires.fired[t]) == fires
        close(wires.value[t], last, 1e-4)
        close(states.error[t], e, 1e-4)
    assert 0 < wires.fired.sum() < ROUNDS


def test_an_unknown_reading_is_refused():
    """A typing error must not silently choose a composition."""
    with pytest.raises(ValueError, match="'output' or 'compressed': got 'in'"):
        fm.channels.aa_compressed(fraction=0.5, kappa=1.0, ef_reference="in")
    with pytest.raises(ValueError, match="'difference' or 'literal': got 'dense'"):
        fm.channels.aa_down(fraction=0.5, kappa=1.0, downlink="dense")


REFERENCES = {
    "output": lambda inner, rule: fm.channels.error_feedback(rule(inner)),
    "compressed": lambda inner, rule: rule(fm.channels.error_feedback(inner)),
}


@pytest.mark.parametrize("reference", REFERENCES)
@pytest.mark.parametrize("rule", ["nla", "aa"])
def test_ef_reference_is_the_order_of_composition(rule, reference):
    """The two readings of Algorithm 3 must not be swapped in the fm.channels."""
    recipe = {"nla": fm.channels.nla_compressed, "aa": fm.channels.aa_compressed}[rule]
    combine = {"nla": fm.channels.lazy, "aa": fm.channels.accelerated}[rule]

    def make(kappa):
        return recipe(fraction=FRACTION, kappa=kappa, ef_reference=reference)

    def same(kappa):
        return REFERENCES[reference](sparse(), lambda inner: combine(inner, kappa))

    messages = walk(6)
    got, expected = (deliver(m, messages, 1.5)[0] for m in (make, same))
    close(got.value, expected.value, 0)
    assert got.bits.tolist() == expected.bits.tolist()
    assert got.fired.tolist() == expected.fired.tolist()
    assert 0 < got.fired.sum() < ROUNDS


@pytest.mark.parametrize("codec", ["top_k", "sign"])
def test_with_feedback_rules_fire_only_above_one(codec):
    """ALGORITHMS 8.4.2: for a constant message the ratio stays between 1 and 2.1."""
    messages = np.stack([np.random.default_rng(0).normal(size=1000)] * 40)
    fraction = 1 / 8

    def make(kappa):
        return fm.channels.nla_compressed(fraction=fraction, kappa=kappa, codec=codec)

    messages = messages.astype(np.float32)
    below, _ = deliver(make, messages, 1.0)
    above, _ = deliver(make, messages, 2.1)
    assert not below.fired.any()
    assert above.fired[1:].any()


# ---- options -------------------------------------------------------------------------

CODEC = {
    "fraction": 1 / 8,
    "codec": "top_k",
    "bits": 4,
    "per_tensor": False,
    "straight_through": False,
}
OWN = {
    "compressed": {},
    "feedback": {},
    "nla_compressed": {
        "kappa": 1.5,
        "ef_reference": "output",
        "reference": "transmitted",
    },
    "aa_compressed": {"kappa": 1.5, "ef_reference": "output"},
    "nla_down": {
        "kappa": 0.002,
        "downlink": "difference",
        "reference": "transmitted",
    },
    "aa_down": {
        "kappa": 0.002,
        "downlink": "difference",
        "extrapolate": False,
        "only_near": False,
    },
}


@pytest.mark.parametrize("name", OWN)
def test_the_signature_is_that_of_recipe_and_codec(name):
    """What cannot be seen in a signature can be neither listed, set nor swept."""
    recipe = catalog.CHANNELS[name].factory
    assert {n: o.default for n, o in options_of(recipe).items()} == OWN[name] | CODEC
    kinds = {p.kind for p in inspect.signature(recipe).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    made = fm.spec(recipe)  # nothing is required
    assert made.options == OWN[name] | CODEC
    assert set(made.hp) == {"kappa", "fraction"} & made.options.keys()
    with pytest.raises(ValueError, match=f"{made.name} has no option 'kapa'; it has"):
        fm.spec(recipe, kapa=1.0)


@pytest.mark.parametrize(
    ("recipe", "ignored"),
    [
        (fm.channels.aa_down, {"kappa": 0.7}),  # without the rule there is no kappa
        (fm.channels.compressed, {"bits": 9}),  # top_k sends whole numbers
        (fm.channels.compressed, {"codec": "sign", "fraction": 0.9}),
        (fm.channels.nla_compressed, {"codec": "quantise", "fraction": 0.9}),
    ],
)
def test_options_that_a_variant_ignores_change_nothing(recipe, ignored):
    """They need not be given, and what is given must not be read."""
    codec = {n: v for n, v in ignored.items() if n == "codec"}
    messages = walk(8)[:6]
    (got, _), (expected, _) = (
        deliver(lambda kappa, given=given: fm.spec(recipe, **given).build(), messages)
        for given in (ignored, codec)
    )
    close(got.value, expected.value, 0)
    assert got.bits.tolist() == expected.bits.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "topk"}, "codec must be 'top_k' or .* 'quantise': got 'topk'"),
        ({"fraction": 0.0}, r"fraction must lie in \(0, 1\]: got 0"),
        ({"kappa": -1.0}, r"kappa must lie in \[0, inf\): got -1"),
        ({"bits": 4.5}, "bits must be an integer: got 4.5"),
        ({"ef_reference": "in"}, "'output' or 'compressed': got 'in'"),
    ],
)
def test_wrong_options_are_refused_by_the_spec(options, message):
    """An error that names the option, before anything is built."""
    with pytest.raises(ValueError, match=message):
        fm.spec(fm.channels.nla_compressed, **options)


def test_numbers_of_a_recipe_can_be_traced():
    """A sweep over kappa and fraction is one program: vmap must equal single runs."""
    made, message = fm.spec(fm.channels.nla_compressed), fm.channels.dense(walk()[5])

    def sent(fraction, kappa):
        channel = made.build(fraction=fraction, kappa=kappa)
        return channel.send(channel.init(message.value), message, KEY, None)[0]

    fractions, kappas = np.array([0.125, 0.5, 1.0]), np.array([0.0, 1.0, 2.0])
    lanes = jax.jit(jax.vmap(sent))(fractions, kappas)
    for i, pair in enumerate(zip(fractions, kappas, strict=True)):
        one = sent(*pair)
        close(lanes.value[i], one.value, 0)
        assert int(lanes.bits[i]) == int(one.bits) == 64 * int(D * fractions[i]) + 1
