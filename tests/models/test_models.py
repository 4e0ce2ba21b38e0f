"""Sizes, initialisation, dropout and cuts of every model."""

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_mos.models.cnn import (
    cnn,
    fedmos_cifar_cnn3,
    fedmos_cifar_lenet,
    fedmos_mnist_cnn,
)
from fedjax_mos.models.layers import Conv, Dense, channel_dropout
from fedjax_mos.models.linear import logistic
from fedjax_mos.models.mlp import mlp
from fedjax_mos.models.resnet import resnet18
from fedjax_mos.models.staged import apply, count, forward, init, staged

MNIST, CIFAR, TINY = (28, 28, 1), (32, 32, 3), (64, 64, 3)

# name: model, input shape, parameters, length of the feature vector
MODELS = {
    "logistic": (logistic(), MNIST, 7_850, 784),
    "mlp": (mlp(), MNIST, 159_010, 200),
    "2nn": (mlp(hidden=(200, 200)), MNIST, 199_210, 200),
    "fedcams_mlp": (mlp(hidden=(64,), dropout=0.5), MNIST, 50_890, 64),
    "fedmos_mnist_cnn": (fedmos_mnist_cnn(), MNIST, 21_840, 50),
    "fedmos_cifar_cnn3": (fedmos_cifar_cnn3(), CIFAR, 122_570, 64),
    "fedmos_cifar_lenet": (fedmos_cifar_lenet(), CIFAR, 62_006, 84),
    "cnn": (cnn(), MNIST, 582_026, 512),
}
RESNETS = {
    "resnet18": (resnet18(), CIFAR, 11_173_962, 512),
    "resnet18_100": (resnet18(100), CIFAR, 11_220_132, 512),
    "resnet18_tiny": (resnet18(200), TINY, 11_271_432, 512),
    "resnet18_7x7": (resnet18(stem="7x7"), CIFAR, 11_181_642, 512),
}
RESNETS |= {
    "resnet10_narrow": (resnet18(width=16, depth=10), CIFAR, 308_826, 128),
    "resnet34": (resnet18(depth=34), CIFAR, 21_282_122, 512),
}
EVERY = MODELS | RESNETS


def resnet_size(width, blocks, classes=10):
    """Convolutions without bias, an affine pair of numbers per normalised channel."""
    total, before = 27 * width + 2 * width, width
    for number, count_ in enumerate(blocks):
        c = width * 2**number
        for _ in range(count_):
            total += 9 * before * c + 9 * c * c + 4 * c
            total += before * c + 2 * c if before != c else 0
            before = c
    return total + (before + 1) * classes


def test_sizes_of_narrow_and_long_resnets():
    """The table's numbers, counted from the layers of the paper."""
    assert resnet_size(64, (2, 2, 2, 2)) == 11_173_962
    assert resnet_size(16, (1, 1, 1, 1)) == RESNETS["resnet10_narrow"][2]
    assert resnet_size(64, (3, 4, 6, 3)) == RESNETS["resnet34"][2]
    with pytest.raises(ValueError, match="depth must be 10, 18 or 34: got 20"):
        resnet18(depth=20)
    with pytest.raises(ValueError, match="width must be a multiple of groups, 2"):
        resnet18(width=15)


def shapes(model, shape):
    x = jnp.zeros((1, *shape))
    return jax.eval_shape(lambda key: init(model, key, x), jax.random.key(0))


def cheap(model, shape):
    """Random parameters that cost no compilation."""
    generator = np.random.default_rng(0)

    def draw(leaf):
        return jnp.asarray(generator.normal(0, 0.05, leaf.shape), leaf.dtype)

    return jax.tree.map(draw, shapes(model, shape))


def images(*shape):
    return jnp.asarray(np.random.default_rng(1).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("name", EVERY)
def test_parameter_count_and_shapes(name):
    """A layer that differs from the published network changes its size."""
    model, shape, size, features = EVERY[name]
    params = shapes(model, shape)
    assert count(params) == size
    x = jnp.zeros((3, *shape))
    hidden = jax.eval_shape(lambda p: forward(model, p, x), params)
    assert len(hidden) == len(model.stages)
    assert hidden[-2].shape == (3, features)
    classes = {"resnet18_100": 100, "resnet18_tiny": 200}.get(name, 10)
    assert hidden[-1].shape == (3, classes)


@pytest.mark.parametrize("make", [logistic, mlp, cnn, fedmos_cifar_cnn3, resnet18])
def test_other_sizes_and_classes(make):
    """Nothing but the factory's arguments may fix the data's shape."""
    model = make(classes=7)
    x = jnp.zeros((2, 40, 36, 3))
    logits = jax.eval_shape(
        lambda key: apply(model, init(model, key, x), x), jax.random.key(0)
    )
    assert logits.shape == (2, 7)


@pytest.mark.parametrize("name", MODELS)
def test_every_cut_gives_the_same_logits(name):
    """FedMLB feeds a stage's output to the rest of another copy of the network."""
    model, shape, _, _ = MODELS[name]
    params = cheap(model, shape)
    key = None if name == "linear" else jax.random.key(3)

    @jax.jit
    def cuts(params, x):
        hidden = forward(model, params, x, key=key)
        resumed = [
            forward(model, params, h, start=level + 1, key=key)[-1]
            for level, h in enumerate(hidden[:-1])
        ]
        return apply(model, params, x, key), hidden[-1], resumed

    logits, last, resumed = cuts(params, images(2, *shape))
    assert np.ptp(logits) > 0
    for other in (last, *resumed):
        np.testing.assert_allclose(other, logits, atol=1e-5)


def test_last_cut_of_resnet():
    """MOON and FedMLB need the pooled features as the classifier's input."""
    model, shape, _, _ = RESNETS["resnet18"]
    params = cheap(model, shape)
    features, logits = jax.jit(lambda h: forward(model, params, h, start=4))(
        images(2, 2, 2, 256)
    )
    assert features.shape == (2, 512)
    resumed = forward(model, params, features, start=5)[-1]
    np.testing.assert_allclose(resumed, logits, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet18_7x7"])
def test_resnet_forward_backward_and_cuts(name):
    """The whole network, initialised, cut everywhere, with finite gradients."""
    model = RESNETS[name][0]
    x = images(2, 16, 16, 3)
    params = init(model, jax.random.key(0), x)
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(apply(model, p, x) ** 2)))(params)
    norms = [float(jnp.linalg.norm(g)) for g in jax.tree.leaves(gradient)]
    assert all(math.isfinite(n) and n > 0 for n in norms)
    hidden = jax.jit(lambda p: forward(model, p, x))(params)
    for level, h in enumerate(hidden[:-1]):
        rest = jax.jit(forward, static_argnums=0, static_argnames="start")
        logits = rest(model, params, h, start=level + 1)[-1]
        np.testing.assert_allclose(logits, hidden[-1], atol=1e-4)


def test_start_out_of_range_is_refused():
    """A wrong level must not silently return an empty tuple."""
    with pytest.raises(ValueError, match=r"start must lie in \[0, 1\], a stage: got 2"):
        forward(logistic(), {}, images(1, 4), start=2)


def test_default_initialisation_is_pytorchs():
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for weights and biases, as in the papers."""
    model = staged([Conv(64, 5)], [Dense(500)])
    params = init(model, jax.random.key(0), jnp.zeros((1, 8, 8, 10)))
    conv, dense = params["stages_0"]["layers_0"], params["stages_1"]["layers_0"]
    for layer, fan_in in ((conv, 250), (dense, 64)):
        bound = fan_in**-0.5
        for leaf in (layer["kernel"], layer["bias"]):
            assert leaf.dtype == jnp.float32
            assert 0.9 * bound < jnp.max(jnp.abs(leaf)) <= bound
            spread = 4 / math.sqrt(leaf.size)  # four standard errors at least
            assert abs(jnp.mean(leaf)) < spread * bound
            np.testing.assert_allclose(jnp.var(leaf), bound**2 / 3, rtol=spread)
    assert not jnp.array_equal(conv["bias"], dense["bias"][:64])


def test_resnet_initialisation_depends_on_the_stem():
    """torchvision draws N(0, 2 / fan_out), FedACG's code keeps PyTorch's default."""
    x = jnp.zeros((1, 8, 8, 64))
    for stem, variance in (("7x7", 2 / 576), ("3x3", 1 / 576 / 3)):
        stage = resnet18(stem=stem).stages[1]
        variables = stage.lazy_init(
            jax.random.key(0), jax.ShapeDtypeStruct(x.shape, x.dtype)
        )
        kernels = [v for v in jax.tree.leaves(variables) if v.ndim == 4]
        assert len(kernels) == 4
        for kernel in kernels:
            np.testing.assert_allclose(jnp.var(kernel), variance, rtol=0.03)
            outside = jnp.mean(jnp.abs(kernel) > math.sqrt(3 * variance))
            assert (outside > 0.05) == (stem == "7x7")


def test_unknown_stem_is_refused():
    """A typing error must not choose a network."""
    with pytest.raises(ValueError, match="stem"):
        resnet18(stem="5x5")


def test_dropout_depends_on_the_key_only():
    """Two-gradient methods need the same mask for the same key; evaluation none."""
    model, shape, _, _ = MODELS["fedmos_mnist_cnn"]
    params, x = cheap(model, shape), images(4, *shape)
    run = jax.jit(lambda key: apply(model, params, x, key))
    first, again, other = (run(jax.random.key(k)) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    evaluate = jax.jit(lambda p, x: apply(model, p, x))
    np.testing.assert_array_equal(evaluate(params, x), evaluate(params, x))
    assert not np.allclose(first, evaluate(params, x))


def test_channel_dropout_drops_whole_channels():
    """Element-wise dropout is a different, weaker noise after a convolution."""
    model = staged([channel_dropout(0.5)])
    y = np.asarray(apply(model, {}, jnp.ones((8, 3, 3, 16)), jax.random.key(0)))
    assert np.all(y == y[:, :1, :1])
    assert set(np.unique(y)) == {0.0, 2.0}
    assert np.ptp(y, axis=0).any()  # examples differ


def test_batch_norm_is_refused():
    """Running statistics are state outside the parameters: nobody would average it."""

    class Normalised(nn.Module):
        @nn.compact
        def __call__(self, x, train=False):
            return nn.BatchNorm(use_running_average=not train)(x)

    message = "pure function of its parameters: got .'batch_stats'.*use GroupNorm"
    with pytest.raises(ValueError, match=message):
        init(staged(Normalised(), [Dense(2)]), jax.random.key(0), jnp.zeros((1, 3)))


def test_fedmos_mnist_cnn_against_numpy():
    """The order of layers, written a second time in NumPy from the specification."""
    model, shape, _, _ = MODELS["fedmos_mnist_cnn"]
    params, x = cheap(model, shape), images(2, *shape)
    layers = [
        (np.asarray(p["kernel"]), np.asarray(p["bias"]))
        for stage in params.values()
        for p in stage.values()
    ]

    def conv(h, kernel, bias):
        views = np.lib.stride_tricks.sliding_window_view(h, (5, 5), (1, 2))
        return np.einsum("bpqcij,ijcf->bpqf", views, kernel) + bias

    def pool(h):
        b, p, q, c = h.shape
        return h.reshape(b, p // 2, 2, q // 2, 2, c).max((2, 4))

    h = np.asarray(x)
    for kernel, bias in layers[:2]:
        h = np.maximum(pool(conv(h, kernel, bias)), 0)
    h = np.maximum(h.reshape(2, -1) @ layers[2][0] + layers[2][1], 0)
    expected = h @ layers[3][0] + layers[3][1]
    np.testing.assert_allclose(apply(model, params, x), expected, atol=1e-5)
