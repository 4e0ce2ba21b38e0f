"""Matrix products with gradients of their own against plain ones."""

import chex
import jax
import jax.numpy as jnp
import pytest

from fedjax_mos.models.products import matmul
from fedjax_mos.target import traced_for

pytestmark = pytest.mark.thorough

# Rows, inputs, features: the gradient flipped, written out and plain.
SHAPES = {"flipped": (6, 20, 3), "written": (4, 5, 9), "plain": (12, 5, 9)}
WAYS = {
    "reverse": jax.jacrev,
    "forward": jax.jacfwd,
    "forward over reverse": jax.hessian,
    "reverse over reverse": lambda f, which: jax.jacrev(jax.jacrev(f, which), which),
}


def factors(name):
    rows, inputs, features = SHAPES[name]
    k_x, k_kernel = jax.random.split(jax.random.key(0))
    x = jax.random.normal(k_x, (2, rows // 2, inputs))
    return x, jax.random.normal(k_kernel, (inputs, features))


def smooth(product):
    return lambda x, kernel: jnp.sin(product(x, kernel)).sum()


@pytest.mark.parametrize("which", [0, 1, (0, 1)], ids=["x", "kernel", "both"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SHAPES)
def test_derivatives_are_those_of_a_plain_product(name, way, which):
    """A wrong axis in a transpose, or a rule that forgets a factor."""
    given = factors(name)
    got = WAYS[way](smooth(matmul), which)(*given)
    chex.assert_trees_all_close(
        got, WAYS[way](smooth(jnp.matmul), which)(*given), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_clients_are_a_batch_axis(name, axes):
    """A gradient that mixes clients."""
    given = [
        factor if axis is None else jnp.stack([factor, 2 * factor])
        for factor, axis in zip(factors(name), axes, strict=True)
    ]
    both = [
        jax.vmap(jax.grad(smooth(product), (0, 1)), axes)(*given)
        for product in (matmul, jnp.matmul)
    ]
    chex.assert_trees_all_close(*both, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_no_product_over_rows():
    """The slow form coming back, from here or by XLA's folding of transposes."""
    for name in SHAPES:
        gradient = jax.jit(jax.grad(smooth(matmul), 1))
        text = gradient.lower(*factors(name)).as_text()
        assert ("contracting_dims = [0] x [0]" in text) == (name == "plain")
        assert ("optimization_barrier" in text) == (name != "plain")


def test_any_leading_axes():
    """An empty batch, or one row without a batch axis."""
    kernel = factors("written")[1]
    for shape in ((0,), (), (2, 3, 2)):
        x = jnp.ones((*shape, kernel.shape[0]))
        chex.assert_trees_all_close(matmul(x, kernel), x @ kernel, rtol=1e-6)


def test_accelerators_have_plain_products():
    """The detour where XLA needs none."""
    x, kernel = factors("written")
    loss = traced_for("cuda", smooth(matmul))
    text = jax.jit(jax.grad(loss, 1)).lower(x, kernel).as_text()
    assert "optimization_barrier" not in text


def test_the_precision_is_that_of_the_forward_pass():
    """Gradients that are rounded where the outputs were not to be."""
    x, kernel = factors("written")
    inner = jax.jit(smooth(matmul))  # whose tangent is traced when it is differentiated
    for platform in ("cpu", "tpu"):
        exact = traced_for(platform, inner, "highest")
        text = jax.jit(jax.grad(exact, (0, 1))).lower(x, kernel).as_text()
        products = [line for line in text.splitlines() if "dot_general" in line]
        assert len(products) == 3
        assert all("HIGHEST" in line for line in products), platform
