"""A model as plain functions, whatever it was written with."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import fedjax_mos as fm
from fedjax_mos.models.functions import Model, as_model
from fedjax_mos.models.layers import Dense

X = jnp.asarray(np.random.default_rng(0).normal(size=(4, 6)), jnp.float32)
KEY = jax.random.key(0)


class Plain(nn.Module):
    """Without a mode: training and evaluation are alike."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.relu(nn.Dense(5)(x)))


class Deterministic(nn.Module):
    """flax's own convention."""

    @nn.compact
    def __call__(self, x, deterministic=True):
        return nn.Dense(3)(nn.Dropout(0.5)(x, deterministic=deterministic))


class Training(nn.Module):
    """The other convention."""

    @nn.compact
    def __call__(self, x, train=False):
        return nn.Dense(3)(nn.Dropout(0.5)(x, deterministic=not train))


class Two(nn.Module):
    """Of a dict of inputs."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x["a"]) + nn.Dense(3)(x["b"])


MODULES = {
    "plain": (Plain(), False),
    "sequential": (nn.Sequential([nn.Dense(5), nn.relu, nn.Dense(3)]), False),
    "deterministic": (Deterministic(), True),
    "train": (Training(), True),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_told_its_mode_if_it_asks(name):
    """Dropout would be off while training, on in evaluation, or an argument unknown."""
    module, random = MODULES[name]
    model = as_model(module)
    assert isinstance(model, Model) and model.forward is None
    params = model.init(KEY, jax.ShapeDtypeStruct(X.shape, X.dtype))
    evaluated = model.apply(params, X, None)
    np.testing.assert_allclose(evaluated, module.apply({"params": params}, X))
    one, same, other = (
        model.apply(params, X, key) for key in (KEY, KEY, jax.random.key(1))
    )
    np.testing.assert_array_equal(one, same)
    assert (np.asarray(one) != np.asarray(other)).any() == random
    assert np.allclose(one, evaluated) == (not random)


def test_inputs_may_be_a_tree():
    """A dict of arrays goes into the module as it is."""
    model, x = as_model(Two()), {"a": X, "b": X[:, :2]}
    params = model.init(KEY, x)
    assert model.apply(params, x, None).shape == (4, 3)
    assert {leaf.shape[0] for leaf in jax.tree.leaves(params) if leaf.ndim == 2} == {
        6,
        2,
    }


def test_a_staged_model_can_be_entered_anywhere():
    """Methods that look inside need `forward`; only staged models have one."""
    model = as_model(fm.models.mlp(3, hidden=(5,)))
    params = model.init(KEY, X)
    hidden = model.forward(params, X, 0, None)
    np.testing.assert_allclose(hidden[-1], model.apply(params, X, None), rtol=1e-6)
    np.testing.assert_allclose(model.forward(params, hidden[0], 1, None)[0], hidden[1])


def linear(params, x, key):
    return x @ params["w"]


def zeros(key, x):
    return {"w": jnp.zeros((x.shape[-1], 3))}


def test_functions_are_a_model():
    """A pair (init, apply) needs no library at all, and a Model is one already."""
    model = as_model((zeros, linear))
    assert model == Model(zeros, linear) and model.forward is None
    assert model.apply(model.init(KEY, X), X, None).shape == (4, 3)
    assert as_model(model) is model


@pytest.mark.parametrize("model", [Plain(), (zeros, linear)], ids=["linen", "pair"])
def test_both_train_in_an_experiment(model):
    """A model of one's own runs like a named one."""
    y = np.arange(24) % 3
    x = np.eye(3, 6, dtype=np.float32)[y]
    data = fm.arrays(x, y, x, y)
    frame = (
        fm.Experiment(
            algorithm="fedavg",
            model=model,
            dataset=data,
            clients=4,
            cohort=2,
            rounds=6,
            options={"lr": 1.0},
        )
        .run(progress=False)
        .frame
    )
    assert frame["test_loss"].iloc[-1] < frame["test_loss"].iloc[0]


@pytest.mark.parametrize(
    ("model", "got"),
    [
        (nnx.Linear(2, 3, rngs=nnx.Rngs(0)), "the flax.nnx module Linear, .*from_nnx"),
        (nnx.Linear, "the flax.nnx class Linear; give fm.models.from_nnx"),
        (Plain, r"the class Plain, not an instance of it: give Plain\(\.\.\.\)"),
        ((zeros,), r"\(<function zeros"),
        ((zeros, None), r"\(<function zeros"),
        (linear, "<function linear"),
        ("mlp", "'mlp'"),
    ],
)
def test_what_is_no_model_is_refused(model, got):
    """An error that says what a model is, and what was given instead."""
    with pytest.raises(ValueError, match=f"model must be a flax.linen.*: got {got}"):
        as_model(model)


def test_state_besides_parameters_is_refused():
    """Batch statistics would be lost: nobody averages them."""

    class Normalised(nn.Module):
        @nn.compact
        def __call__(self, x, train=False):
            return Dense(2)(nn.BatchNorm(use_running_average=not train)(x))

    with pytest.raises(ValueError, match=r"got \['batch_stats'\] besides them"):
        as_model(Normalised()).init(KEY, X)
