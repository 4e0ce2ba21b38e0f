"""Codecs: what is kept, what is lost, and the exact price."""

import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import configuration, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fedjax_mos as fm
from fedjax_mos.channels.codec_options import codec_of
from fedjax_mos.channels.codecs import largest

pytestmark = pytest.mark.thorough

configuration.set_hypothesis_home_dir(tempfile.gettempdir())  # nothing in the repo
checked = settings(max_examples=25, deadline=None, database=None, derandomize=True)

D = 24
KEY = jax.random.key(3)
# 24 entries in tensors of 5, 18 and 1.
SHAPES = {"a": (5,), "b": (3, 6), "c": (1,)}
TENSORS = [5, 18, 1]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 1e-45, -1e-40, 1e-38, 1e30, -1e30, 3e37, -1e37]


def vectors(limit=3e37):
    """float32 vectors with ties, both zeros, denormals and huge values."""
    limit = float(np.float32(limit))
    number = st.sampled_from([v for v in SPECIAL if abs(v) <= limit]) | st.floats(
        -limit, limit, width=32, allow_subnormal=True
    )
    tied = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-45])
    return hnp.arrays(np.float32, D, elements=number) | hnp.arrays(
        np.float32, D, elements=tied
    )


def tree(seed=0):
    """A message without zeros."""
    rng = np.random.default_rng(seed)
    return {
        name: jnp.asarray(rng.normal(size=shape), jnp.float32)
        for name, shape in SHAPES.items()
    }


def flat(value):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(value)])


# ---- top-k ---------------------------------------------------------------------------


select = jax.jit(largest)
top = jax.jit(lambda v, fraction: fm.channels.top_k(fraction)(v, KEY))
signed = jax.jit(lambda v: fm.channels.scaled_sign()(v, KEY))


def stable(v, k):
    """The k largest magnitudes by a stable sort: equal ones by position."""
    mask = np.zeros(len(v), bool)
    mask[np.argsort(-np.abs(v), kind="stable")[:k]] = True
    return mask


@checked
@given(vectors(), st.integers(1, D))
def test_largest_is_a_stable_sort(v, k):
    """One entry too many breaks the bit count, another order reproducibility."""
    mask = np.asarray(select(np.abs(v), jnp.uint32(k)))
    assert mask.sum() == k
    np.testing.assert_array_equal(mask, stable(v, k))


@checked
@given(vectors(), st.integers(1, D))
def test_top_k_keeps_the_largest_and_contracts(v, k):
    """Kept entries must be bit for bit the sender's; the rest is at most (1 - k/d)."""
    wire = top(v, np.float32(k / D))
    kept = np.where(stable(v, k), v, np.float32(0))
    np.testing.assert_array_equal(wire.value, kept)
    assert int(wire.bits) == 64 * k
    v, out = v.astype(np.float64), np.asarray(wire.value, np.float64)
    lost, whole = ((out - v) ** 2).sum(), (v**2).sum()
    assert lost <= (1 - k / D) * whole * (1 + 1e-12)


def test_float64_is_ordered_by_all_its_bits():
    """With x64 the bisection must run over 64 bits, not the upper 32."""
    v = 1 + np.arange(D) * 2.0**-50  # alike in float32
    with jax.enable_x64(True):
        mask = np.asarray(largest(jnp.asarray(v), jnp.uint32(7)))
    np.testing.assert_array_equal(mask, np.arange(D) >= D - 7)


# ---- the others ----------------------------------------------------------------------


@checked
@given(vectors(limit=1e18))
def test_scaled_sign_contracts(v):
    """|C(v) - v|^2 <= |v|^2 - |v|_1^2 / d, within 1e-5 |v|^2; no zeros: equal."""
    out = np.asarray(signed(v).value, np.float64)
    v = v.astype(np.float64)
    whole, l1 = (v**2).sum(), np.abs(v).sum()
    lost, bound = ((out - v) ** 2).sum(), whole - l1**2 / D
    slack = 1e-5 * whole + 1e-70
    assert lost <= bound + slack
    if (np.abs(v) > 1e-37).all():
        assert abs(lost - bound) <= slack
    assert (out[v == 0] == 0).all()
    assert len(np.unique(np.abs(out[out != 0]))) <= 1


UNBIASED = {
    "random_k": lambda each: fm.channels.random_k(0.3, per_tensor=each),
    "quantise": lambda each: fm.channels.quantise(3, per_tensor=each),
}


@pytest.mark.parametrize("each", [False, True], ids=["whole", "per_tensor"])
@pytest.mark.parametrize("name", UNBIASED)
def test_random_codecs_are_unbiased(name, each):
    """A biased codec without feedback moves the optimum (five standard errors)."""
    codec, value = UNBIASED[name](each), tree(1)
    keys = jax.random.split(KEY, 4000)
    out = jax.jit(jax.vmap(lambda key: codec(value, key).value))(keys)
    out = np.concatenate([np.reshape(x, (4000, -1)) for x in jax.tree.leaves(out)], 1)
    out, v = out.astype(np.float64), flat(value)
    error = out.std(axis=0) / np.sqrt(4000)
    assert (error > 0).sum() >= D - 1  # a tensor of one entry may travel exactly
    np.testing.assert_array_less(abs(out.mean(axis=0) - v), 5 * error + 1e-6)
    if name == "random_k":
        # k / d of the entries, scaled by d / k; per tensor k = 1, 5 and 1.
        sizes = TENSORS if each else [D]
        k = [max(int(0.3 * size), 1) for size in sizes]
        assert ((out != 0).sum(axis=1) == sum(k)).all()
        scale = np.repeat(np.array(sizes) / np.array(k), sizes)
        expected = np.where(out != 0, scale * v, 0)
        np.testing.assert_allclose(out, expected, rtol=1e-6)
        variance = v**2 * (scale - 1)
        np.testing.assert_allclose(out.var(axis=0), variance, rtol=0.25, atol=1e-9)


def test_quantise_rounds_to_a_neighbour():
    """Levels are multiples of |v| / (2^(b-1) - 1); an entry may move by one of them."""
    v, widths = flat(tree(2)).astype(np.float32), (2, 4, 8)

    @jax.jit
    def quantised(v):
        return [fm.channels.quantise(bits)(v, KEY).value for bits in widths]

    for bits, out in zip(widths, np.asarray(quantised(v)), strict=True):
        step = np.linalg.norm(v) / (2 ** (bits - 1) - 1)
        np.testing.assert_allclose(out / step, (out / step).round(), atol=1e-3)
        assert (abs(out - v) < step * (1 + 1e-5)).all()
    np.testing.assert_array_equal(quantised(np.zeros(D, np.float32)), np.zeros((3, D)))


def test_quantise_survives_huge_values():
    """A message that float32 can hold must not become NaN on the wire."""
    assert np.isfinite(fm.channels.quantise(4)(jnp.full(D, 1e25), KEY).value).all()


@pytest.mark.parametrize("bits", [-1, 0, 1, 17, 32])
def test_quantise_refuses_impossible_widths(bits):
    """One bit has no level, and more than 16 no use: the range must be named."""
    with pytest.raises(ValueError, match=rf"bits must lie in \[2, 16\]: got {bits}"):
        fm.channels.quantise(bits)


# ---- the price -----------------------------------------------------------------------

# Tensors of 5, 18 and 1 entries. fraction 1/4: k = 6 of 24; per tensor 1, 4 and 1.
BITS = {
    "top_k": (
        lambda each: fm.channels.top_k(0.25, per_tensor=each),
        6 * 64,
        (1 + 4 + 1) * 64,
    ),
    # ceil(log2 24) = 5; per tensor ceil(log2 5) = 3, ceil(log2 18) = 5, one bit for 1.
    "top_k packed": (
        lambda each: fm.channels.top_k(0.25, per_tensor=each, packed_index=True),
        6 * (32 + 5),
        1 * (32 + 3) + 4 * (32 + 5) + 1 * (32 + 1),
    ),
    "random_k": (
        lambda each: fm.channels.random_k(0.25, per_tensor=each),
        6 * 32 + 32,
        (1 * 32 + 32) + (4 * 32 + 32) + (1 * 32 + 32),
    ),
    "sign": (
        lambda each: fm.channels.scaled_sign(per_tensor=each),
        24 + 32,
        (5 + 32) + (18 + 32) + (1 + 32),
    ),
    "quantise 2": (
        lambda each: fm.channels.quantise(2, per_tensor=each),
        2 * 24 + 32,
        2 * 24 + 3 * 32,
    ),
    "quantise 7": (
        lambda each: fm.channels.quantise(7, per_tensor=each),
        7 * 24 + 32,
        7 * 24 + 3 * 32,
    ),
    "dense": (
        lambda each: lambda value, key: fm.channels.dense(value),
        32 * 24,
        32 * 24,
    ),
}


@pytest.mark.parametrize("name", BITS)
def test_bits_are_a_hand_count(name):
    """The price is what the comparison of methods is about."""
    make, whole, per_tensor = BITS[name]

    @jax.jit
    def price(value):
        return [make(each)(value, KEY) for each in (False, True)]

    value = tree()
    for wire, bits in zip(price(value), (whole, per_tensor), strict=True):
        assert int(wire.bits) == bits
        assert wire.bits.dtype == jnp.uint32 and wire.bits.shape == ()
        assert wire.fired is None
        assert jax.tree.map(jnp.shape, wire.value) == jax.tree.map(jnp.shape, value)


def test_per_tensor_keeps_k_of_each():
    """Per tensor no tensor starves; over the whole vector small ones may."""
    value = {"small": jnp.full(4, 1e-3), "large": jnp.arange(1.0, 9.0)}

    @jax.jit
    def both(value):
        return [
            fm.channels.top_k(0.25, per_tensor=p)(value, KEY).value
            for p in (False, True)
        ]

    whole, each = both(value)
    assert whole["small"].tolist() == [0, 0, 0, 0]
    assert whole["large"].tolist() == [0, 0, 0, 0, 0, 6, 7, 8]
    np.testing.assert_allclose(each["small"], [1e-3, 0, 0, 0])
    assert each["large"].tolist() == [0, 0, 0, 0, 0, 0, 7, 8]


@pytest.mark.parametrize("k", [1, 3, 6, 7, 150])
def test_a_known_k_selects_the_same(k):
    """The fast path for few entries (k <= 200 / 32) must break ties alike."""
    v = np.random.default_rng(k).integers(0, 12, 200).astype(np.float32)
    mask = np.asarray(jax.jit(lambda v: largest(v, k))(v))
    np.testing.assert_array_equal(mask, stable(v, k))
    np.testing.assert_array_equal(mask, select(v, jnp.uint32(k)))


def test_tensors_draw_independently():
    """One key for all tensors would round equal tensors alike."""
    value = {"a": jnp.full(18, 0.3), "b": jnp.full(18, 0.3)}
    for make in UNBIASED.values():
        out = jax.jit(make(True))(value, KEY).value
        assert (np.asarray(out["a"]) != np.asarray(out["b"])).any()


@pytest.mark.parametrize("name", ["top_k", "random_k"])
def test_a_traced_fraction_is_the_static_one(name):
    """A sweep over fractions must equal single runs, values and bits."""
    value = tree(4)
    make = {"top_k": fm.channels.top_k, "random_k": fm.channels.random_k}[name]
    fractions = [1e-9, 0.04, 1 / 8, 0.29, 1 / 3, 0.5, 1.0]
    traced = jax.jit(jax.vmap(lambda fraction: make(fraction)(value, KEY)))(
        jnp.array(fractions)
    )

    @jax.jit
    def static():
        return [make(fraction)(value, KEY) for fraction in fractions]

    for i, wire in enumerate(static()):
        np.testing.assert_array_equal(flat(wire.value), flat_row(traced.value, i))
        assert int(wire.bits) == int(traced.bits[i])
    k = [1, 1, 3, 6, 8, 12, 24]
    assert traced.bits.tolist() == [
        n * 64 if name == "top_k" else n * 32 + 32 for n in k
    ]


def flat_row(value, i):
    return flat(jax.tree.map(lambda leaf: leaf[i], value))


def numbers(fractions, d):
    """k of top-k for each traced fraction of d entries."""
    v = jnp.zeros(d)
    price = jax.jit(jax.vmap(lambda fraction: fm.channels.top_k(fraction)(v, KEY).bits))
    return np.asarray(price(jnp.asarray(fractions, jnp.float32))) // 64


def test_awkward_fractions_lose_no_entry():
    """int(0.29 * 100) is 28 in double precision, int(0.53 * 100) is 52 in single."""
    assert 0.29 * 100 < 29
    np.testing.assert_array_equal(
        numbers(np.arange(1, 101) / 100, 100), np.arange(1, 101)
    )
    thousandths = numbers([1 / 8, *np.arange(1, 1001) / 1000], 1000)
    np.testing.assert_array_equal(thousandths, [125, *range(1, 1001)])
    # Never more than asked for: one below each boundary stays below.
    below = numbers((np.arange(1, 101) - 0.01) / 100, 100)
    np.testing.assert_array_equal(below, np.maximum(np.arange(1, 101) - 1, 1))


@pytest.mark.parametrize("d", [100_000, 1_000_000])
def test_awkward_fractions_lose_no_entry_of_a_real_model(d):
    """The same k must come out at the size of a network, traced or not."""
    i = np.arange(1, 1001)
    np.testing.assert_array_equal(numbers(i / 1000, d), i * d // 1000)


def test_static_fractions_are_exact_at_any_size():
    """The static path multiplies in double precision."""
    thousandths = (65, 129, 251)

    @jax.jit
    def prices(v):
        return [fm.channels.top_k(i / 1000)(v, KEY).bits for i in thousandths]

    got = [int(bits) for bits in prices(jnp.zeros(1_000_000))]
    assert got == [64 * 1000 * i for i in thousandths]


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", ["top_k", "random_k", "sign", "quantise"])
def test_codecs_by_name(name, unbiased):
    """The catalog's names must give the codecs they say."""
    expected = {
        "top_k": fm.channels.top_k(0.25),
        "random_k": fm.channels.random_k(0.25, unbiased=unbiased),
        "sign": fm.channels.scaled_sign(),
        "quantise": fm.channels.quantise(5, unbiased=unbiased),
    }[name]
    value = tree()
    named = codec_of(unbiased, codec=name, fraction=0.25, bits=5)
    got, wire = jax.jit(lambda v: (named(v, KEY), expected(v, KEY)))(value)
    np.testing.assert_array_equal(flat(got.value), flat(wire.value))
    assert int(got.bits) == int(wire.bits)


def test_an_unknown_codec_is_refused():
    """A typing error must list what there is."""
    with pytest.raises(ValueError, match="top_k.*random_k.*sign.*quantise.*'topk'"):
        codec_of(codec="topk")


@pytest.mark.parametrize(
    "codec", [fm.channels.top_k(0.1), fm.channels.scaled_sign()], ids=["k", "sign"]
)
def test_single_numbers_travel_as_they_are(codec):
    """A step size among the weights would be drowned or lost."""
    message = {"direction": jnp.arange(1.0, 21.0), "way": jnp.float32(0.001)}
    sent = codec(message, KEY)
    alone = codec(message["direction"], KEY)
    assert sent.value["way"] == message["way"]
    np.testing.assert_array_equal(sent.value["direction"], alone.value)
    assert int(sent.bits) == int(alone.bits) + 32


@pytest.mark.parametrize("name", ["top_k", "random_k", "sign", "quantise"])
def test_codecs_with_memory_contract(name):
    """Error feedback around an expanding codec blows its residual up."""
    codec = codec_of(codec=name)
    v = jax.random.normal(jax.random.key(1), (512,))
    keys = jax.random.split(KEY, 200)
    lost = jax.vmap(lambda key: ((codec(v, key).value - v) ** 2).sum())(keys)
    assert lost.mean() < (v**2).sum()


# ---- half precision ------------------------------------------------------------------

# Of 24 entries a quarter, 6, is kept; a value has 16 bits, an index or a seed 32.
HALF = {
    "top_k": (fm.channels.top_k(0.25), 6 * (16 + 32)),
    "top_k packed": (fm.channels.top_k(0.25, packed_index=True), 6 * (16 + 5)),
    "random_k": (fm.channels.random_k(0.25), 6 * 16 + 32),
    "scaled_sign": (fm.channels.scaled_sign(), 24 + 16),
    "quantise": (fm.channels.quantise(4), 4 * 24 + 16),
    # Of three tensors, each with a price of its own.
    "scaled_sign per tensor": (fm.channels.scaled_sign(per_tensor=True), 24 + 3 * 16),
}


@pytest.mark.parametrize("name", HALF)
def test_half_numbers_cost_half(name):
    """16 bits for every value that travels, and the message keeps its type."""
    codec, bits = HALF[name]
    message = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), tree())
    wire = codec(message, KEY)
    assert int(wire.bits) == bits and wire.bits.dtype == jnp.uint32
    assert {leaf.dtype for leaf in jax.tree.leaves(wire.value)} == {
        jnp.dtype("bfloat16")
    }


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_random_entries_are_as_random_in_half_precision(dtype):
    """Few digits would make ties of draws, which go to the first entries."""
    size, times = 2000, 300
    codec = fm.channels.random_k(0.002)  # four of them
    draw = jax.vmap(lambda key: codec(jnp.ones(size, dtype), key).value != 0)
    place = np.nonzero(np.asarray(draw(jax.random.split(KEY, times))))[1]
    assert len(place) == 4 * times
    away = place.mean() - (size - 1) / 2
    assert abs(away) < 4.5 * size / (12 * 4 * times) ** 0.5


@pytest.mark.parametrize("bits", [4, 12])
def test_quantisation_is_unbiased_in_half_precision(bits):
    """Rounding up and down balance, whatever digits the message has."""
    v = jnp.linspace(-1, 1, 15).astype(jnp.bfloat16)
    codec = fm.channels.quantise(bits)
    many = jax.vmap(lambda key: codec(v, key).value)(jax.random.split(KEY, 2000))
    exact, got = np.asarray(v, float), np.asarray(many, float)
    noise = got.std(0) / 2000**0.5
    digits = float(jnp.finfo(v.dtype).eps) * np.abs(exact)
    assert (np.abs(got.mean(0) - exact) <= 5 * noise + digits + 1e-6).all()


@pytest.mark.parametrize("name", ["random_k", "scaled_sign", "quantise"])
def test_nothing_stays_nothing_in_half_precision(name):
    """The floor under a norm is not itself zero in float16."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float16), tree())
    assert not flat(HALF[name][0](zeros, KEY).value).any()
