"""Models as sequences of stages, and the plain functions that use them.

`forward` returns the output of every stage: [-1] logits, [-2] the feature vector. It
can start anywhere, so "local trunk up to level l, global head after it" (FedMLB) is
`forward(model, anchor, hidden[l], l + 1)[-1]` and needs no hooks.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax

from fedjax_mos.types import Key, Params, PyTree

Layer = Callable[[jax.Array], jax.Array]  # a module or a function


class Stage(nn.Module):
    """Layers one after another; only dropout depends on `train`."""

    layers: Sequence[Layer]

    def __call__(self, h: jax.Array, train: bool = False) -> jax.Array:
        for layer in self.layers:
            if isinstance(layer, nn.Dropout):
                h = layer(h, deterministic=not train)
            else:
                h = layer(h)
        return h


class Staged(nn.Module):
    """A network cut into stages, each called as `stage(h, train)`.

    The last stage is the classifier; the one before it outputs the feature vector.
    """

    stages: Sequence[nn.Module]  #: modules, from the inputs on

    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        return self.hidden(x, train=train)[-1]

    def hidden(
        self, h: jax.Array, start: int = 0, train: bool = False
    ) -> tuple[jax.Array, ...]:
        """Outputs of the stages from `start` on, given the input of that stage."""
        if not 0 <= start < len(self.stages):
            last = len(self.stages) - 1
            raise ValueError(f"start must lie in [0, {last}], a stage: got {start}")
        outputs = []
        for stage in self.stages[start:]:
            h = stage(h, train)
            outputs.append(h)
        return tuple(outputs)


def staged(*stages: Sequence[Layer] | nn.Module) -> Staged:
    """A `Staged` model; a stage is a module or a sequence of layers.

    >>> from fedjax_mos.models.layers import Dense, flatten
    >>> model = staged([flatten, Dense(8), nn.tanh], [Dense(3)])
    >>> params = init(model, jax.random.key(0), jax.numpy.zeros((1, 2, 2)))
    >>> count(params), apply(model, params, jax.numpy.ones((5, 2, 2))).shape
    (67, (5, 3))
    """
    modules = (s if isinstance(s, nn.Module) else Stage(tuple(s)) for s in stages)
    return Staged(tuple(modules))


def init(model: nn.Module, key: Key, x: PyTree) -> Params:
    """Parameters for inputs like x, of which only shapes and dtypes are used.

    The leaves [B, ...] of x are arrays or their `jax.ShapeDtypeStruct`.
    """
    # Lazy: the parameters are drawn, the forward pass is only traced.
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), x)
    variables = model.lazy_init(key, shapes, **_mode(model, "__call__", train=False))
    check_variables(variables)
    return variables.get("params", {})


def check_variables(variables: Mapping[str, PyTree]) -> None:
    """Refuse a model that keeps more than parameters, such as batch statistics."""
    extra = sorted(set(variables) - {"params"})
    if extra:
        raise ValueError(
            f"the model must be a pure function of its parameters: got {extra} "
            "besides them; use GroupNorm instead of BatchNorm"
        )


def apply(
    model: nn.Module, params: Params, x: PyTree, key: Key | None = None
) -> jax.Array:
    """Outputs; with a key in training mode (dropout drawn from it), else evaluation.

    A module is told so by its argument `train` or `deterministic`, if it has one.
    """
    mode = _mode(model, "__call__", train=key is not None)
    outputs: Any = model.apply({"params": params}, x, rngs=_rngs(key), **mode)
    return outputs


def forward(
    model: Staged, params: Params, h: PyTree, start: int = 0, key: Key | None = None
) -> tuple[jax.Array, ...]:
    """Outputs of the stages from `start` on, for h the input of stage `start`.

    `params` is the full tree. Dropout depends on the key and on the place in the
    network only, so one key gives a stage the same mask whatever `start` is.
    """
    mode = _mode(model, "hidden", train=key is not None)
    at: Any = {"params": params}, h, start
    outputs: Any = model.apply(*at, method="hidden", rngs=_rngs(key), **mode)
    return outputs


def count(params: Params) -> int:
    """Number of parameters d; also of the result of `jax.eval_shape`."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def _mode(model: nn.Module, method: str, train: bool) -> dict[str, Any]:
    """How this method of the module is told whether it is training."""
    known = inspect.signature(getattr(type(model), method)).parameters
    if "train" in known:
        return {"train": train}
    return {"deterministic": not train} if "deterministic" in known else {}


def _rngs(key: Key | None) -> dict[str, Key] | None:
    return None if key is None else {"dropout": key}
