"""The matrix-product convolution and the pooling against independent references."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from fedjax_mos.models.conv import convolution, matmul_convolution, max_pool
from fedjax_mos.target import traced_for

pytestmark = pytest.mark.thorough

NHWC = ("NHWC", "HWIO", "NHWC")

# height, width, channels, kernel, features, strides, padding
TABLE = [
    (7, 9, 1, (5, 5), 3, (1, 1), "VALID"),  # few channels: full patches
    (8, 6, 3, (3, 3), 2, (2, 1), "SAME"),
    (9, 7, 5, (3, 3), 4, (1, 1), "SAME"),  # more: patches along the width only
    (9, 8, 6, (3, 2), 2, (2, 2), "SAME"),
    (7, 7, 5, (1, 1), 3, (2, 2), "VALID"),  # a strided shortcut
    (11, 11, 3, (7, 7), 2, (2, 2), [(3, 3), (3, 3)]),  # torchvision's stem
    (6, 10, 5, (2, 5), 3, (1, 3), [(0, 2), (1, 0)]),
]


def random(*shape):
    generator = np.random.default_rng(sum(shape))
    return jnp.asarray(generator.standard_normal(shape), jnp.float32)


def case(row, clients=()):
    height, width, channels, kernel, features, strides, padding = row
    x = random(*clients, 2, height, width, channels)
    return x, random(*clients, *kernel, channels, features), strides, padding


def with_gradients(conv, x, kernel):
    """Value and both gradients of a nonlinear function of the output."""

    def loss(x, kernel):
        y = conv(x, kernel)
        return jnp.sum(jnp.sin(y)), y

    (_, y), gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)(x, kernel)
    return y, gradients


def both(strides, padding):
    def ours(x, kernel):
        return convolution(x, kernel, strides, padding, dimension_numbers=NHWC)

    def reference(x, kernel):
        return lax.conv_general_dilated(
            x, kernel, strides, padding, dimension_numbers=NHWC
        )

    return ours, reference


def assert_close(a, b):
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, atol=2e-4), a, b)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_values_and_gradients_are_those_of_lax(row):
    """Wrong windows, strides or padding would train a different network."""
    x, kernel, strides, padding = case(row)
    run = jax.jit(with_gradients, static_argnums=0)
    ours, reference = (run(f, x, kernel) for f in both(strides, padding))
    assert_close(ours, reference)


@pytest.mark.parametrize("row", [TABLE[1], TABLE[3]], ids=str)
def test_clients_with_their_own_weights(row):
    """Under vmap each client must meet its own kernel, and XLA no convolution."""
    x, kernel, strides, padding = case(row, clients=(3,))
    ours, reference = both(strides, padding)
    batched = jax.jit(jax.vmap(lambda x, k: with_gradients(ours, x, k)))
    compiled = batched.lower(x, kernel).compile()
    assert "convolution(" not in compiled.as_text()
    one_by_one = [
        with_gradients(reference, *pair) for pair in zip(x, kernel, strict=True)
    ]
    assert_close(
        compiled(x, kernel), jax.tree.map(lambda *a: jnp.stack(a), *one_by_one)
    )


def test_negative_padding_crops():
    """As documented by lax, whose own CPU kernel reads the next example here."""
    x, kernel = random(2, 8, 9, 5), random(3, 3, 5, 2)
    ours, _ = both((1, 2), [(-1, 1), (0, -2)])
    same, _ = both((1, 2), [(0, 1), (0, 0)])
    assert_close(ours(x, kernel), same(x[:, 1:, :-2], kernel))


def test_forward_mode():
    """Hypergradients by forward mode need a jvp, which a custom vjp would forbid."""
    x, kernel, strides, padding = case(TABLE[3])
    ours, reference = both(strides, padding)
    tangents = jax.jit(lambda f: jax.jvp(f, (x, kernel), (x, kernel)), static_argnums=0)
    assert_close(tangents(ours), tangents(reference))


def test_accelerators_use_lax():
    """The rule of choice: a native convolution elsewhere, matrix products on CPU."""
    x, kernel, strides, padding = case(TABLE[2])
    ours, _ = both(strides, padding)
    assert "convolution" not in jax.jit(ours).lower(x, kernel).as_text()
    ours = traced_for("cuda", ours)
    assert "stablehlo.convolution" in jax.jit(ours).lower(x, kernel).as_text()


@pytest.mark.parametrize(
    "options",
    [
        {"strides": 2, "padding": 1},
        {"feature_group_count": 2},
        {"kernel_dilation": 2},
        {"input_dilation": 2, "padding": 1},
        {"padding": "CIRCULAR"},
    ],
    ids=str,
)
def test_flax_module_accepts_it(options):
    """Dropped into `nn.Conv`, supported or not, an option must mean the same."""
    x = random(2, 6, 6, 4)
    plain = nn.Conv(2, (3, 3), **options)
    ours = nn.Conv(2, (3, 3), **options, conv_general_dilated=convolution)
    kernel = random(3, 3, 4 // options.get("feature_group_count", 1), 2)
    variables = {"params": {"kernel": kernel, "bias": random(2)}}
    assert_close(ours.apply(variables, x), plain.apply(variables, x))


def test_one_dimensional_goes_to_lax():
    """`nn.Conv` over sequences must not reach the image code."""
    x, kernel = random(2, 8, 3), random(3, 3, 2)
    options = {"dimension_numbers": ("NHC", "HIO", "NHC")}
    expected = lax.conv_general_dilated(x, kernel, (1,), "SAME", **options)
    assert_close(convolution(x, kernel, (1,), "SAME", **options), expected)


def test_kernel_larger_than_input_is_refused():
    """A net too deep for its images would otherwise run on nothing."""
    with pytest.raises(ValueError, match="larger than padded input"):
        matmul_convolution(random(1, 2, 4, 1), random(3, 3, 1, 1), (1, 1), "VALID")


def pool_reference(x, window, stride, padding):
    edges = ((0, 0), (padding,) * 2, (padding,) * 2, (0, 0))
    x = np.pad(np.asarray(x), edges, constant_values=-np.inf)
    rows, columns = ((n - window) // stride + 1 for n in x.shape[1:3])
    y = np.empty((x.shape[0], rows, columns, x.shape[3]), x.dtype)
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride, j * stride
            y[:, i, j] = x[:, top : top + window, left : left + window].max((1, 2))
    return y


@pytest.mark.parametrize("platform", ["cpu", "tpu"])
@pytest.mark.parametrize("window, stride, padding", [(2, 2, 0), (3, 2, 1), (3, 1, 0)])
def test_pool_values_and_gradients(window, stride, padding, platform):
    """Against loops over windows; the gradient goes to each window's maximum."""
    x = random(2, 7, 6, 3)  # odd height: the last row of 2x2 windows is dropped
    pool = traced_for(platform, max_pool)

    def weighted(x):
        y = pool(x, window, stride, padding)
        return jnp.sum(y * jnp.arange(1.0, y.size + 1).reshape(y.shape)), y

    (_, y), gradient = jax.jit(jax.value_and_grad(weighted, has_aux=True))(x)
    expected = pool_reference(x, window, stride, padding)
    np.testing.assert_array_equal(y, expected)
    weights = np.arange(1.0, y.size + 1).reshape(y.shape)
    reference = np.zeros(x.shape)
    for value, weight in zip(expected.ravel(), weights.ravel(), strict=True):
        reference[np.asarray(x) == value] += weight  # all entries of x are different
    np.testing.assert_allclose(gradient, reference)


def test_equal_maxima_share_the_gradient():
    """Ties, frequent after a ReLU, must not multiply the gradient."""
    for platform in ("cpu", "tpu"):
        pool = traced_for(platform, max_pool)
        gradient = jax.grad(lambda x, pool=pool: pool(x).sum())(jnp.ones((1, 4, 4, 2)))
        sums = gradient.reshape(2, 2, 2, 2, 2).sum((1, 3))
        np.testing.assert_allclose(sums, 1)


def test_pool_of_a_tpu_has_second_derivatives():
    """Hypergradients that work on a CPU only."""
    x, pool = random(1, 4, 4, 2), traced_for("tpu", max_pool)

    def curved(pool):
        return lambda scale: jnp.sum(pool(jnp.sin(scale * x)))

    for way in (jax.jacfwd(jax.grad(curved(pool))), jax.grad(jax.grad(curved(pool)))):
        expected = jax.hessian(curved(max_pool))(1.0)
        np.testing.assert_allclose(way(1.0), expected, rtol=1e-4)
